"""Programs of users under mypy and pyright: what is right is accepted, each line that is marked as wrong is refused."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from duetime.scheduler.request import DEADLINE_KINDS, ActionOnTask, DeadlineWord, PriorityWord
from duetime.scheduler.task import Tier
from duetime.server.python.arguments import SPECIAL_ARGUMENTS

HANDLERS = """
from collections.abc import Mapping
from typing import Any, assert_type

from duetime import Context, Done, Failed, Retry, handler, testing
from pydantic import BaseModel


class Resize(BaseModel):
    path: str


class Other(BaseModel):
    name: str


@handler("resize", payload=Resize, needs={"gpu": 1}, time_limit=30)
def resize(ctx: Context, payload: Resize) -> Done | Retry:
    return Done(summary=payload.path)


@handler("later", payload=Resize)
async def later(ctx: Context, payload: Resize) -> Done:
    return Done()


@handler("scaled", payload=Resize)
def scaled(ctx: Context, payload: Resize, scale: int = 2) -> Done:
    return Done()


@handler("plain")
def plain(ctx: Context) -> Failed:
    return Failed("no")


@handler("loose")
def loose(ctx: Context, payload: Mapping[str, Any]) -> Done:
    return Done()


@handler("wrong-model", payload=Other)  # wrong
def wrong_model(ctx: Context, payload: Resize) -> Done:
    return Done()


@handler("no-model")  # wrong
def no_model(ctx: Context, payload: Resize) -> Done:
    return Done()


@handler("no-outcome", payload=Resize)  # wrong
def no_outcome(ctx: Context, payload: Resize) -> str:
    return "done"


@handler("needs", needs={"gpu": "1"})  # wrong
def needs(ctx: Context) -> Done:
    return Done()


@handler("isolated", isolation="container")  # wrong
def isolated(ctx: Context) -> Done:
    return Done()


ctx = Context.for_test()
assert_type(resize(ctx, Resize(path="a")), Done | Retry)
assert_type(plain(ctx), Failed)
scaled(ctx, Resize(path="a"), scale=3)
scaled(ctx, Resize(path="a"), scale="3")  # wrong
resize(ctx, Other(name="a"))  # wrong
resize(ctx)  # wrong
testing.run(resize, {"path": "a"})
testing.run(len)  # wrong
testing.context(link=testing.Link(event=lambda: None, cancelled=lambda: True))
testing.Link(evnet=lambda: None)  # wrong
testing.Link(event=lambda: 5)  # wrong


async def main() -> None:
    assert_type(await later(ctx, Resize(path="a")), Done)
"""

CALLS = """
from collections.abc import Sequence
from datetime import date, timedelta
from typing import assert_type

from pydantic import BaseModel

from duetime import (
    AsyncScheduler,
    EventFilter,
    EventPage,
    InboxMessage,
    Principal,
    Request,
    RetryPolicy,
    Scheduler,
    Settings,
    State,
    TaskFilter,
    TaskPage,
    TaskView,
    Tier,
    errors,
)
from duetime import Schedulr  # wrong


class Resize(BaseModel):
    path: str


with Scheduler.open(Settings(threads=4)) as scheduler:
    assert_type(scheduler, Scheduler)
    view = scheduler.schedule(
        "x", when=timedelta(minutes=5), priority="high", needs={"gpu": 1}, deadline_type="hard", by=Principal("acme")
    )
    assert_type(view, TaskView)
    scheduler.schedule("x", when="now", action="resize", payload=Resize(path="a.png"), steps=None)
    scheduler.schedule("x", action=None, payload=None, deliver_to=None, labels=None, after=None, dry_run=None)
    scheduler.reschedule("t_1", payload=Resize(path="a.png"), remove=None, skip_next=None, dry_run=None)
    scheduler.submit(Request("x", action="resize", payload=Resize(path="a.png"), steps=None))
    scheduler.schedule("x", steps=[{"name": "a", "action": "resize", "payload": Resize(path="a.png")}])
    scheduler.replay(["r_1"], payload=Resize(path="a.png"))
    assert_type(view.record.run.state, State)
    assert_type(scheduler.list(TaskFilter(states=(State.FAILED,)), before=date(2028, 1, 1)), TaskPage)
    assert_type(scheduler.history(EventFilter(text="x"), since="yesterday"), EventPage)
    assert_type(scheduler.inbox(), Sequence[InboxMessage])
    assert_type(scheduler.schedule_many([Request("x", retry=RetryPolicy(max_attempts=3))]), list[TaskView])
    assert_type(scheduler.act("t_1", "snooze", until=date(2028, 1, 1)), TaskView)
    try:
        scheduler.cancel("t_1", reason="it rains")
    except errors.TaskNotFound as unknown:
        assert_type(unknown.task_id, str)
    scheduler.schedule("x", priority="hihg")  # wrong
    scheduler.schedule("x", deadline_type="strict")  # wrong
    scheduler.schedule("x", needs={"gpu": "one"})  # wrong
    scheduler.schedule("x", whem="tomorrow")  # wrong
    scheduler.schedule("x", labels=5)  # wrong
    scheduler.schedule("x", payload=5)  # wrong
    scheduler.schedule("x", repeat=timedelta(days=3))  # wrong
    scheduler.schedule("x", by="ann")  # wrong
    scheduler.reschedule("t_1", priority=5)  # wrong
    scheduler.act("t_1", "snoze")  # wrong
    scheduler.list(TaskFilter(states=5))  # wrong
    scheduler.schedule_many(Request("x"))  # wrong
    scheduler.get()  # wrong
    Request("x", priority="hihg")  # wrong


async def main() -> None:
    async with AsyncScheduler.open(threads=2) as program:
        assert_type(await program.schedule("x", when="in 2 hours", priority=Tier.HIGH), TaskView)
        assert_type(await program.list(TaskFilter(label="x"), limit=5), TaskPage)
        assert_type(await program.pools, tuple[str, ...])
        await program.schedule("x", priority="hihg")  # wrong
        await program.schedule("x", action="resize", payload=Resize(path="a.png"), steps=None)
        await program.get()  # wrong
"""
CACHE = Path(__file__).resolve().parents[3] / "build" / "type-tests"
"""Outside git; what mypy knows of the packages that do not change stays here, for other tests of types as well."""

PROGRAMS = {"handlers.py": HANDLERS, "calls.py": CALLS}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("programs")
    for name, program in PROGRAMS.items():
        (made / name).write_text(program, encoding="utf-8")
    return made


def marked() -> set[tuple[str, int]]:
    return {
        (name, number)
        for name, program in PROGRAMS.items()
        for number, line in enumerate(program.splitlines(), start=1)
        if line.endswith("# wrong")
    }


def checked(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_mypy_refuses_what_is_wrong_in_a_program_and_nothing_else(folder: Path) -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file", "", "--cache-dir", str(CACHE), *PROGRAMS]
    found = checked(command, folder)

    places = re.findall(r"^(\w+\.py):(\d+): error: ", found, re.MULTILINE)
    # mypy reports a decorated function where its def stands, pyright where the decorator does.
    assert {(name, marked_line(name, int(line))) for name, line in places} == marked(), found


def marked_line(name: str, number: int) -> int:
    lines = PROGRAMS[name].splitlines()
    decorated = number > 1 and lines[number - 2].startswith("@handler") and lines[number - 1].startswith("def ")
    return number - 1 if decorated else number


def test_pyright_refuses_what_is_wrong_in_a_program_and_nothing_else(folder: Path) -> None:
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}', encoding="utf-8")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", *PROGRAMS]
    found = json.loads(checked(command, folder))["generalDiagnostics"]

    errors = [each for each in found if each["severity"] == "error"]
    places = {(Path(each["file"]).name, each["range"]["start"]["line"] + 1) for each in errors}
    assert places == marked(), json.dumps(errors, indent=1)


def test_the_words_that_type_checkers_know_are_those_that_there_are() -> None:
    words = {kind: set(re.findall(r"'([\w-]+)'", str(kind))) for kind in (PriorityWord, DeadlineWord, ActionOnTask)}

    assert words[PriorityWord] == {tier.value for tier in Tier}
    assert words[DeadlineWord] == set(DEADLINE_KINDS)
    assert words[ActionOnTask] == set(SPECIAL_ARGUMENTS["act.action"].kind.accepted.split(", "))

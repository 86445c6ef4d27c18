"""A handler that returns Spawn: its tasks run, and what comes after it runs after all of them."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime import Context, Done, Failed, Scheduler, Settings, Spawn, State, handler
from duetime.scheduler.handlers import run_handler
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.server.cli.formats.task_facts import task_facts
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests import blank
from tests.flow.worker import isolated_handlers
from tests.flow.worker.test_isolation import run


@handler("fan")
def fan(ctx: Context) -> Done:
    """Spawn three tasks."""
    return Spawn([{"name": f"n{number}", "action": "count", "payload": {"number": number}} for number in range(3)])


@handler("count")
def count(ctx: Context, payload: dict[str, int]) -> Done:
    """Return a number."""
    return Done(result=payload["number"])


@handler("sum")
def total(ctx: Context) -> Done:
    """Add what the spawned tasks returned."""
    return Done(result=sum(value for name, value in ctx.inputs.items() if name.startswith("fan/")))


@handler("wrong")
def wrong(ctx: Context, payload: dict[str, list[dict[str, Any]]]) -> Done:
    """Spawn what cannot be."""
    return Done(spawn=payload["spawn"])


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    blank.make(tmp_path / "duetime.db")
    return Settings(database_url=f"sqlite:///{tmp_path / 'duetime.db'}", timezone="UTC")


def test_a_step_runs_after_all_that_the_one_before_it_spawned(settings: Settings) -> None:
    with Scheduler.open(settings, handlers=[fan, count, total]) as scheduler:
        view = scheduler.schedule(
            "Add", steps=[{"name": "fan", "action": "fan"}, {"name": "sum", "action": "sum", "after": ["fan"]}]
        )
        ended = scheduler.wait(view.record.task.id, timeout=timedelta(seconds=30))
        assert ended.record.run.state is State.SUCCEEDED
        assert ended.chain
        assert [step.name for step in ended.chain.steps] == ["fan", "fan/n0", "fan/n1", "fan/n2", "sum"]
        assert scheduler.get(ended.chain.steps[-1].task_id).record.run.result == 3


@pytest.mark.parametrize(("count", "more"), [(1, ""), (7, " and 2 more")])
def test_a_task_names_the_first_tasks_that_its_last_run_has_spawned_and_counts_them(
    settings: Settings, capsys: pytest.CaptureFixture[str], count: int, more: str
) -> None:
    with Scheduler.open(settings, handlers=[wrong]) as scheduler:
        spawned = [{"name": f"n{number}", "title": f"Part {number}"} for number in range(count)]
        task_id = scheduler.schedule("Spawn", action="wrong", payload={"spawn": spawned}).record.task.id
        scheduler.wait(task_id, timeout=timedelta(seconds=30))
        view = scheduler.get(task_id)
        said = view.warnings[-1]
        assert isinstance(said, Translatable)
        assert (said.kind, said.values) == (NoteKind.SPAWNED, {"count": count})
        named = re.fullmatch(rf"its last run has spawned {count} tasks?: (.*?){more}", said)
        assert named
        titles = [scheduler.get(each).record.task.title for each in named[1].split(", ")]
        assert titles == [f"Part {number}" for number in range(min(count, 5))]
        assert view.warnings[-1][1:] in task_text(task_payload(view))
        task_facts(task_payload(view))
        assert view.warnings[-1] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("spawned", "problem"),
    [
        ([{"name": "one", "action": "no_such_action"}], "spawn.one.action: "),
        ([{"name": "a", "action": "count"}, {"action": "count"}], "spawn[1].name: it is missing."),
        ([{"name": "a"}, {"name": "a"}], "spawn[1].name: two steps are named a."),
        (
            [{"name": "a"}, {"name": "b", "after": ["a"], "after_failure": "run"}],
            "spawn.b.after_failure: 'run' is not one of them. Accepted: fail, skip, run_anyway.",
        ),
        ([{"name": "a", "repeat": "daily"}], "spawn[0].repeat: a step has no such part. Accepted: name, action, "),
        ([{"name": "a", "pay_load": {}, "payloads": {"a": 1}}], "spawn[0].payloads: a step has no such part; did you"),
        ([{"name": f"n{number}"} for number in range(201)], "spawn: 201 steps are too many. Accepted: at most 200."),
        (
            [{"name": "a", "after": ["b"]}, {"name": "b", "after": ["a"]}],
            "spawn.b.after: a step would come after itself: a -> b -> a. Accepted: ",
        ),
    ],
)
def test_a_run_fails_that_spawns_what_cannot_be(
    settings: Settings, spawned: list[dict[str, Any]], problem: str
) -> None:
    with Scheduler.open(settings, handlers=[wrong, count]) as scheduler:
        task_id = scheduler.schedule("Spawn", action="wrong", payload={"spawn": spawned}).record.task.id
        run = scheduler.wait(task_id, timeout=timedelta(seconds=30)).record.run
        assert (run.state, run.attempt) == (State.FAILED, 1)
        assert f"it cannot spawn its tasks: {problem}" in (run.error or "")


def test_tasks_that_are_no_objects_fail_at_once_in_a_process_as_in_a_thread(capfd: pytest.CaptureFixture[str]) -> None:
    expected = Failed(
        "spawns-text: Done.spawn[0]: it is not an object. Accepted: an object with a name. "
        "Example: spawn=[{'name': 'fetch', 'action': 'webhook'}]"
    )
    assert run_handler(isolated_handlers.spawns_text, Context.for_test(), {}) == expected
    assert run(isolated_handlers.spawns_text) == expected
    assert capfd.readouterr().err == ""

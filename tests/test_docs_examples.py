"""The Python in the pages type-checks as it stands, and the handlers that they show do what they say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from duetime import Done, Failed, Scheduler, Wait, testing
from duetime.scheduler.task import State
from duetime.server.cli.main import run

from tests.flow.python.test_types import CACHE
from tests.flow.waiting import eventually

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
HANDLER_PAGE, PROGRAM_PAGE = ROOT / "docs/writing-a-handler.md", ROOT / "docs/python.md"
READERS_MODULE = "my_handlers"
"""The module that a reader has made of the first block about handlers."""


def blocks(page: Path) -> list[str]:
    return PYTHON.findall(page.read_text("utf-8"))


def modules(page: Path) -> Iterator[tuple[str, str]]:
    """Yield each block of a page as a module; it has the names of those above it."""
    above = ""
    for number, code in enumerate(blocks(page)):
        name = re.sub(r"\W", "_", f"{page.relative_to(ROOT).with_suffix('')}_{number}")
        yield name, f"from {above} import *\n{code}" if above else code
        above = name


def test_the_python_in_the_pages_has_the_types_that_it_claims(tmp_path: Path) -> None:
    (tmp_path / f"{READERS_MODULE}.py").write_text(blocks(HANDLER_PAGE)[0], "utf-8")
    for page in PAGES:
        for name, code in modules(page):
            (tmp_path / f"{name}.py").write_text(code, "utf-8")
    names = ",".join(path.stem for path in tmp_path.glob("*.py"))
    (tmp_path / "mypy.ini").write_text(f"[mypy]\nstrict = True\n[mypy-{names}]\nimplicit_reexport = True\n", "utf-8")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(CACHE), "."]
    checked = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """All that the page about handlers defines, by name."""
    module = types.ModuleType("shown_handlers")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        for code in blocks(HANDLER_PAGE):
            exec(compile(code, str(HANDLER_PAGE), "exec"), module.__dict__)
    return vars(module)


@pytest.mark.parametrize("code", [code for code in blocks(HANDLER_PAGE) if "@handler(" in code])
def test_each_handler_of_the_page_is_declared_by_its_block_alone(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("copied_handler")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(code, str(HANDLER_PAGE), "exec"), module.__dict__)
    for value in vars(module).values():
        if isinstance(value, types.FunctionType) and value.__module__ == module.__name__:
            get_type_hints(value)


def test_the_tests_that_the_page_about_handlers_shows_pass(shown: dict[str, Any]) -> None:
    found = [value for name, value in shown.items() if name.startswith("test_")]
    assert len(found) == 4
    for test in found:
        test()


def test_the_commands_below_the_first_handler_schedule_it_and_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{READERS_MODULE}.py").write_text(blocks(HANDLER_PAGE)[0], "utf-8")
    commands = SHELL.findall(HANDLER_PAGE.read_text("utf-8"))[0].splitlines()
    exported = dict(each.split("=") for each in shlex.split(commands[0])[1:])
    verbs = [shlex.split(command, comments=True)[1:] for command in commands[1:]]
    assert exported == {"DUETIME_HANDLERS": READERS_MODULE, "PYTHONPATH": "$PWD"}
    assert [verb[0] for verb in verbs] == ["schedule", "serve"]
    monkeypatch.syspath_prepend(tmp_path)
    given = {
        "HANDLERS": READERS_MODULE,
        "DATABASE_URL": f"sqlite:///{tmp_path / 'duetime.db'}",
        "TIMEZONE": "UTC",
        "DESKTOP_NOTIFICATIONS": "off",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"DUETIME_{name}", value)

    assert run(verbs[0]) == 0
    with Scheduler.open() as scheduler:
        task_id = scheduler.find("shrink the logo")
        last = scheduler.wait(task_id, timeout=60).record.run
    assert (last.state, last.summary) == (State.SUCCEEDED, "logo.png is 800 wide")


def test_the_program_that_tests_a_handler_passes(shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    readers = types.ModuleType(READERS_MODULE)
    readers.__dict__["resize"] = shown["resize"]
    monkeypatch.setitem(sys.modules, READERS_MODULE, readers)
    [code] = [code for code in blocks(PROGRAM_PAGE) if READERS_MODULE in code]
    exec(compile(code, str(PROGRAM_PAGE), "exec"), {})


def test_the_handler_that_waits_for_an_event_goes_on_with_it_and_fails_without(shown: dict[str, Any]) -> None:
    def attempt(event: Any = None) -> Any:
        ctx = testing.context(checkpoint_state="A-7", link=testing.Link(event=lambda: event))
        return testing.run(shown["order"], {}, ctx=ctx)

    assert isinstance(testing.run(shown["order"], {}), Wait)
    assert attempt({"name": "order.paid", "id": "e", "data": {"eur": 90}, "at": "2026-11-20T12:00:00+00:00"}) == Done(
        "A-7 is paid", result={"eur": 90}
    )
    assert attempt() == Failed("nobody has paid A-7")


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [("approve", State.SUCCEEDED, "paid back, as "), ("reject", State.FAILED, "said no: not hers")],
)
def test_the_handler_that_asks_goes_on_by_the_answer(
    shown: dict[str, Any], answer: str, state: State, words: str
) -> None:
    with testing.open_scheduler(handlers=[shown["refund"]], run=True) as scheduler:
        task = scheduler.schedule("Refund", when="now", action="refund").record.task
        eventually(lambda: "approval" in " ".join(scheduler.get(task.id).waiting_for), "it asks")
        getattr(scheduler, answer)(task.id, reason="not hers")
        run = scheduler.wait(task.id, timeout=60).record.run
        assert (run.state, words in (run.summary or run.error or "")) == (state, True)

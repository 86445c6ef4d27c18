"""A reload looks at the files of handlers, imports them again once they are written, and leaves libraries alone."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidSetting
from duetime.server.runtime.handler_files import HandlerFiles
from duetime.server.settings.model import Settings
from duetime.server.telemetry.observers import Observers
from duetime.server.transport.reload import ReloadingApp


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder to import from; its modules are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def names(files: HandlerFiles) -> list[str]:
    return [path.name for path in files.time_stamps()]


def test_every_module_next_to_a_single_module_is_looked_at(folder: Path) -> None:
    for name in ("alone", "helper", "unused"):
        (folder / f"{name}.py").write_text("")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "other.py").write_text("")
    importlib.import_module("alone")
    assert names(HandlerFiles(["alone"])) == ["alone.py", "helper.py", "unused.py"]


def test_every_file_of_a_package_is_looked_at_and_none_outside_it(folder: Path) -> None:
    (folder / "store_jobs" / "deep").mkdir(parents=True)
    for path in ("store_jobs/__init__.py", "store_jobs/jobs.py", "store_jobs/deep/more.py", "beside.py"):
        (folder / path).write_text("")
    importlib.import_module("store_jobs.jobs")
    assert sorted(names(HandlerFiles(["store_jobs.jobs"]))) == ["__init__.py", "jobs.py", "more.py"]


def test_of_a_module_among_libraries_its_own_file_alone_is_looked_at() -> None:
    assert names(HandlerFiles(["typing_extensions"])) == ["typing_extensions.py"]
    assert names(HandlerFiles(["sys"])) == []


def test_forgotten_modules_are_read_again_or_come_back_as_they_were(folder: Path) -> None:
    (folder / "alone.py").write_text("import helper\n")
    (folder / "helper.py").write_text("WORD = 1\n")
    first = importlib.import_module("alone")
    files = HandlerFiles(["alone"])
    (folder / "helper.py").write_text("WORD = 'two'\n")
    old = files.forget()
    again = importlib.import_module("alone")
    assert (first.helper.WORD, again.helper.WORD) == (1, "two")
    assert json is sys.modules["json"], "libraries are not read again"
    files.restore(old)
    assert sys.modules["alone"] is first
    assert sys.modules["helper"].WORD == 1


class Made:
    """Stands for an application that nobody asks anything."""

    def __init__(self, _settings: Settings) -> None:
        self.listeners: list[Any] = []
        self.handlers: dict[str, Any] = {}
        self.observers = Observers()
        self.runner = self
        self.calls: list[str] = []

    def start(self) -> None:
        self.calls.append("start")

    def stop(self, _grace: object) -> None:
        self.calls.append("stop")

    def close(self) -> None:
        self.calls.append("close")

    def begin_end(self) -> None:
        self.calls.append("begin_end")


HANDLER = "from duetime import Done, handler\n\n@handler('x')\ndef x(ctx):\n    return Done()\n"


@pytest.fixture
def app(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ReloadingApp:
    (folder / "alone.py").write_text(HANDLER)
    importlib.import_module("alone")
    monkeypatch.setattr("duetime.server.transport.reload.CALL_GRACE_S", 0)
    settings = Settings(database_url=f"sqlite:///{folder}/duetime.db", handlers=("alone",))
    return ReloadingApp(settings, make=Made)  # type: ignore[arg-type] # what it does with an application is tested


def test_a_file_is_loaded_once_it_is_no_longer_being_written(app: ReloadingApp, folder: Path) -> None:
    first: Any = app.app
    app.look()
    for number in range(3):
        (folder / "alone.py").write_text(HANDLER + "\n" * number)
        (folder / f"new{number}.py").write_text("")
        app.look()
        assert app.app is first
    app.look()
    assert app.app is not first
    following: Any = app.app
    assert (first.calls, following.calls) == (["stop", "close"], ["start"])
    app.look()
    assert app.app is following


def test_modules_that_cannot_be_imported_leave_the_last_good_ones_where_they_were(
    app: ReloadingApp, folder: Path
) -> None:
    first, module = app.app, sys.modules["alone"]
    (folder / "alone.py").write_text("from duetime import nothing\n")
    app.look()
    app.look()
    assert app.app is first
    assert sys.modules["alone"] is module
    (folder / "alone.py").write_text(HANDLER + "# repaired\n")
    app.look()
    app.look()
    assert app.app is not first
    assert sys.modules["alone"] is not module


def test_nothing_is_loaded_and_nothing_started_once_the_process_ends(app: ReloadingApp, folder: Path) -> None:
    first: Any = app.app
    (folder / "new.py").write_text("")
    app.look()
    app.begin_end()
    app.look()
    assert (app.app, first.calls) == (first, ["begin_end"])


def test_a_reload_needs_handlers(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="none is configured"):
        ReloadingApp(Settings(database_url=f"sqlite:///{tmp_path}/duetime.db"))

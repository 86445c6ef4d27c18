"""The two walks of docs/architecture.md are those that the code takes: both calls run under a tracer.

The page says what a stop is and what is only a look-up. A new room on the way, a return to one that was left, or a call
between rooms that the page does not name fails here.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pytest
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.task import State
from duetime.server.app import App, build
from duetime.server.settings.model import Settings
from duetime.tools.registration import StrictTool, make_tools

from tests.flow.waiting import eventually

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
FOLDERS = ("server", "scheduler", "tools", "widgets")
PORTS = ("scheduler/store", "scheduler/queue")
MAX_STOPS = 12
THREADS = (
    ("scheduler/dispatch", "Dispatcher.step"),
    ("scheduler/worker", "RunConsumer.__next__"),
    ("scheduler/worker", "ThreadGate.run"),
    ("scheduler/worker", "BatchCompleter._run"),
)
"""A due run goes over four threads, in this order; each is known by its room and a function that only it calls."""

CALL = "A call: from the tool to the card"
DUE_RUN = "A due run: from the dispatcher to the settled outcome"
_ROW = re.compile(r"^\| (\d+|-) \| `(.+?)` \| `(.+?)` \|", re.MULTILINE)
_LOOK_UP = re.compile(r"^\| `([\w/.]+)` \| (?:`(.+?)` )?\| ", re.MULTILINE)


class Entry(NamedTuple):
    """A function that is called from another room."""

    file: str
    function: str

    @property
    def room(self) -> str:
        return str(Path(self.file).parent)


class Frame(NamedTuple):
    """A call that has not returned; `walked` is False below a look-up."""

    of: FrameType
    room: str
    walked: bool


# --- the page ---------------------------------------------------------------------------------------------------------


def table(heading: str) -> tuple[list[Entry], list[Entry]]:
    """Return the numbered stops of a walk, and all its rows, with the later calls of ports."""
    section = PAGE.read_text("utf-8").partition(f"### {heading}\n")[2].partition("\n#")[0]
    rows = [(number, Entry(file, function)) for number, file, function in _ROW.findall(section)]
    numbered = [(number, entry) for number, entry in rows if number != "-"]
    assert [int(number) for number, _ in numbered] == list(range(1, len(numbered) + 1))
    return [entry for _, entry in numbered], [entry for _, entry in rows]


def look_ups() -> list[tuple[str, str]]:
    section = PAGE.read_text("utf-8").partition("| look-up |")[2].partition("\n\n")[0]
    return [(place, function) for place, function in _LOOK_UP.findall(section)]


# --- the tracer -------------------------------------------------------------------------------------------------------


class Tracer:
    """Records, for each thread, the calls that go from one room into another."""

    def __init__(self) -> None:
        self.threads: list[list[Entry]] = []
        self._look_ups = look_ups()
        self._known: dict[CodeType, tuple[Entry | None, bool]] = {}
        self._local = threading.local()

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if event not in {"call", "return"}:
            return
        entry, is_look_up = self._place(frame.f_code)
        if entry is None:
            return
        if not hasattr(self._local, "stack"):
            self._local.stack, self._local.entries = [], []
            self.threads.append(self._local.entries)
        stack: list[Frame] = self._local.stack
        if event == "call":
            self._call(frame, entry, stack, is_look_up=is_look_up)
        elif stack and stack[-1].of is frame:
            stack.pop()

    def _call(self, frame: FrameType, entry: Entry, stack: list[Frame], *, is_look_up: bool) -> None:
        if is_look_up and not stack:
            return  # a loop, which calls the room that it is of
        is_open = any(open_.walked and open_.room == entry.room for open_ in stack)
        walked = not is_look_up and (is_open or not stack or stack[-1].walked)
        if walked and not is_open:
            self._local.entries.append(entry)
        stack.append(Frame(frame, entry.room, walked))

    def _place(self, code: CodeType) -> tuple[Entry | None, bool]:
        if code not in self._known:
            file = os.path.relpath(os.path.realpath(code.co_filename), ROOT)
            entry = Entry(file, code.co_qualname) if Path(file).parts[0] in FOLDERS else None
            self._known[code] = entry, entry is not None and self._is_look_up(entry)
        return self._known[code]

    def _is_look_up(self, entry: Entry) -> bool:
        return any(
            entry.file.startswith(place)
            if place.endswith("/")
            else entry.file == place and function in {"", entry.function}
            for place, function in self._look_ups
        )


@contextmanager
def traced() -> Iterator[Tracer]:
    """Trace this thread, and those that begin meanwhile."""
    tracer, before = Tracer(), sys.getprofile()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    try:
        yield tracer
    finally:
        sys.setprofile(before)
        threading.setprofile(before)


# --- the rules of a walk ----------------------------------------------------------------------------------------------


def rooms_of(entries: Sequence[Entry]) -> list[str]:
    """Return the rooms in the order of the walk; calls of one room in a row are one stop.

    A later call of a port returns to its caller and is left out. Another room that is entered again is in here twice.
    """
    rooms: list[str] = []
    for room in (entry.room for entry in entries):
        again = room in rooms and room.startswith(PORTS)
        if not again and rooms[-1:] != [room]:
            rooms.append(room)
    return rooms


def handed_over(threads: Sequence[Sequence[Entry]]) -> list[Entry]:
    """Join the threads of a due run; one that goes on in the room that handed over to it enters no room."""
    walk: list[Entry] = []
    for room, function in THREADS:
        of_room = (entries for entries in threads if entries[:1] and entries[0].room == room)
        mine = next(entries for entries in of_room if any(entry.function == function for entry in entries))
        start = next(n for n, entry in enumerate(mine) if entry.function == function)
        known = any(entry.room == room for entry in walk)
        walk += [] if known and mine[start].room == room else [mine[start]]
        walk += [entry for entry in mine[start + 1 :] if entry.room != room]  # its loop begins there each time
    return walk


def test_a_room_that_is_entered_again_is_told_unless_it_is_a_port() -> None:
    calls = [Entry("tools/a.py", "a"), Entry("scheduler/store/b.py", "b"), Entry("scheduler/intake/c.py", "c")]
    again = [*calls, Entry("scheduler/store/d.py", "d"), Entry("tools/a.py", "a")]
    assert rooms_of(again) == ["tools", "scheduler/store", "scheduler/intake", "tools"]


@pytest.mark.parametrize("heading", [CALL, DUE_RUN])
def test_a_walk_has_at_most_twelve_stops_and_no_room_twice(heading: str) -> None:
    stops, _ = table(heading)
    rooms = [stop.room for stop in stops]
    assert 0 < len(stops) <= MAX_STOPS
    assert len(set(rooms)) == len(rooms)


# --- the walks --------------------------------------------------------------------------------------------------------


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    database = f"sqlite:///{tmp_path / 'duetime.db'}"
    settings = Settings.model_validate({"database_url": database, "timezone": "UTC", "desktop_notifications": "off"})
    with build(settings) as made:
        yield made


def test_a_call_takes_the_way_that_the_page_shows(app: App) -> None:
    tool = next(tool for tool in make_tools(lambda: app.scheduler) if tool.name == "schedule_task")
    assert isinstance(tool, StrictTool)
    tool.answer({"title": "Stretch", "when": "tomorrow at 8am"}, LOCAL)  # so that nothing is cached on the way
    with traced() as tracer:
        tool.answer({"title": "Call John", "when": "tomorrow at 9am"}, LOCAL)
    stops, _ = table(CALL)
    (entered,) = (entries for entries in tracer.threads if entries)
    assert rooms_of(entered) == [stop.room for stop in stops]
    assert set(stops) <= set(entered)


def test_a_due_run_takes_the_way_that_the_page_shows(app: App) -> None:
    settled = threading.Event()
    with traced() as tracer:
        app.start()
        eventually(lambda: app.runner.dispatches, "this process to be the runner")
        view = app.scheduler.schedule("Call John", when="in 3 seconds")

        def look(_task_ids: Sequence[str]) -> None:
            if app.scheduler.get(view.record.task.id).record.run.state is State.SUCCEEDED:
                settled.set()

        app.listeners.append(look)
        look([])
        assert settled.wait(60)
        app.close()
    stops, rows = table(DUE_RUN)
    walk = handed_over(tracer.threads)
    assert rooms_of(walk) == [stop.room for stop in stops]
    ahead = iter(walk)
    assert [row for row in rows if row in ahead] == rows

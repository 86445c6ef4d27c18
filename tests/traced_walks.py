"""The two walks of docs/architecture.md are those that the code takes: both calls run under a tracer.

docs/contributing.md says what a stop is and what is only a look-up. Three things fail here: a new room on the way, a
return to an earlier one, a call between rooms that the page lacks.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import pytest
from duetime.scheduler import worker
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.store import migrate_store
from duetime.scheduler.store.database.sqlite import Sqlite
from duetime.scheduler.task import State
from duetime.server.app import App, Role, build
from duetime.server.settings.model import Settings
from duetime.tools.registration import StrictTool, make_tools

from tests.flow.waiting import eventually

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
RULES_PAGE = ROOT / "docs" / "contributing.md"
FOLDERS = ("server", "scheduler", "tools", "widgets")
PORTS = ("scheduler/store", "scheduler/queue")
MAX_STOPS = 12
TABLE_COLUMNS = 2
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
_ROOM = re.compile(r"`([\w/*]+(?:\.py)?)(?::([\w.]+))?`")
_WRITES = re.compile(r"\s*(?:WITH\b.*\b)?(?:INSERT|UPDATE|DELETE|REPLACE)\b", re.DOTALL)
WRITING_FOR_STATEMENTS = "scheduler/store/sql"
"""Executes what `store/statements/` and its rooms have composed; those are stops."""


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


def rooms_with_servers(walk: str) -> list[str]:
    """Return the rooms of a walk with PostgreSQL and Redis."""
    (row,) = (line for line in RULES_PAGE.read_text("utf-8").splitlines() if line.startswith(f"| {walk} |"))
    return re.findall(r"`(.+?)`", row)


class LookUp(NamedTuple):
    """A room, a file, files by a pattern, or a single function of a file."""

    place: str
    function: str = ""

    def holds(self, entry: Entry) -> bool:
        if self.place.endswith("/"):
            return entry.file.startswith(self.place)
        return Path(entry.file).match(self.place) and self.function in {"", entry.function}

    def exists(self) -> bool:
        files = [ROOT / self.place] if self.place.endswith("/") else list(ROOT.glob(self.place))
        name = self.function.rpartition(".")[2]
        return bool(files) and all(
            file.exists() and (not name or f"def {name}(" in file.read_text("utf-8")) for file in files
        )


def look_ups(page: str) -> list[LookUp]:
    """Return what the table names; a row of another form is refused, since it would name nothing."""
    _, *rows = page.partition("| no stop |")[2].partition("\n\n")[0].splitlines()
    found: list[LookUp] = []
    for row in rows[1:]:
        cells = row.strip("|").split(" | ")
        named = [LookUp(*pair) for pair in _ROOM.findall(cells[0])]
        assert len(cells) == TABLE_COLUMNS, f"{row}: it has {len(cells)} cells"
        assert named, f"{row}: it names no place"
        assert all(each.exists() for each in named), f"{row}: there is no such place"
        found += named
    return found


# --- the tracer -------------------------------------------------------------------------------------------------------


class Tracer:
    """Records, for each thread, the calls that go from one room into another."""

    def __init__(self) -> None:
        self.threads: list[list[Entry]] = []
        self.written_on_the_side: set[str] = set()
        self.called: list[str] = []
        self._look_ups = look_ups(RULES_PAGE.read_text("utf-8"))
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
            self.called.append(f"{entry.file.removesuffix('.py')}.{entry.function}")
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
        return any(each.holds(entry) for each in self._look_ups)

    def executed(self, sql: str) -> None:
        """Note the look-ups that a statement which writes is executed below."""
        if _WRITES.match(sql):
            frames: list[Frame] = getattr(self._local, "stack", [])
            below = [frame.of.f_code for frame in frames if not frame.walked and frame.room != WRITING_FOR_STATEMENTS]
            self.written_on_the_side |= {f"{code.co_filename}: {code.co_qualname}" for code in below}


@contextmanager
def traced(writer: sqlite3.Connection | None) -> Iterator[Tracer]:
    """Trace this thread, those that begin during the block, and what `writer` executes."""
    tracer, before = Tracer(), sys.getprofile()
    threading.setprofile(tracer)
    sys.setprofile(tracer)
    if writer is not None:
        writer.set_trace_callback(tracer.executed)
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


TABLE = "| no stop | why |\n|---|---|\n"


def test_a_row_names_files_rooms_and_functions() -> None:
    rows = look_ups(
        TABLE + "| `scheduler/ids.py`, `scheduler/rules/`, `scheduler/store/store.py:Store.now` | words |\n\n"
    )
    assert rows == [("scheduler/ids.py", ""), ("scheduler/rules/", ""), ("scheduler/store/store.py", "Store.now")]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("| `scheduler/ids.py` | `new_id` | words |", "it has 3 cells"),
        ("| `scheduler/ids.py` |", "it has 1 cells"),
        ("| scheduler/ids.py | words |", "it names no place"),
        ("| `scheduler/ides.py` | words |", "there is no such place"),
        ("| `scheduler/ids.py:old_id` | words |", "there is no such place"),
        ("| `scheduler/rule/` | words |", "there is no such place"),
    ],
)
def test_a_broken_row_is_refused(row: str, problem: str) -> None:
    with pytest.raises(AssertionError, match=problem):
        look_ups(f"{TABLE}{row}\n\n")


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
    settings = Settings.model_validate(
        {"database_url": database, "timezone": "UTC", "desktop_notifications": "off", "yield_to_load": False}
    )
    with build(settings) as made:
        yield made


def writer_of(app: App) -> sqlite3.Connection:
    database = app.store._database
    assert isinstance(database, Sqlite)
    raw: sqlite3.Connection = database._raw
    return raw


def called(app: App, writer: sqlite3.Connection | None = None) -> tuple[list[Entry], Tracer]:
    tool = next(tool for tool in make_tools(lambda: app.scheduler) if tool.name == "schedule_task")
    assert isinstance(tool, StrictTool)
    tool.calls.execute({"title": "Stretch", "when": "tomorrow at 8am"}, LOCAL)  # so that nothing is cached on the way
    with traced(writer) as tracer:
        tool.calls.execute({"title": "Call John", "when": "tomorrow at 9am"}, LOCAL)
    (entered,) = (entries for entries in tracer.threads if entries)
    return entered, tracer


def steps_of_an_attempt() -> list[str]:
    """Return the functions that the worker's docstring lists, as `scheduler/worker/broker.DispatchBroker.take`."""
    lines = [line for line in (worker.__doc__ or "").splitlines() if line[:1].isdigit()]
    steps = [re.fullmatch(r"\d+\. `([a-z_.]+)\.([A-Z]\w+\.\w+)`: .+", line) for line in lines]
    assert all(steps), lines
    return [f"scheduler/worker/{step[1].replace('.', '/')}.{step[2]}" for step in steps if step]


def ran(app: App, writer: sqlite3.Connection | None = None) -> tuple[list[Entry], Tracer]:
    settled = threading.Event()
    with traced(writer) as tracer:
        app.start()
        eventually(lambda: app.runner.dispatches, "this process to start what is due")
        view = app.scheduler.schedule("Call John", when="in 6 seconds")

        def look(_task_ids: Sequence[str]) -> None:
            if app.scheduler.get(view.record.task.id).record.run.state is State.SUCCEEDED:
                settled.set()

        app.listeners.append(look)
        look([])
        assert settled.wait(60)
        app.close()
    return handed_over(tracer.threads), tracer


def test_a_call_takes_the_way_that_the_page_shows(app: App) -> None:
    stops, _ = table(CALL)
    entered, tracer = called(app, writer_of(app))
    assert rooms_of(entered) == [stop.room for stop in stops]
    assert not tracer.written_on_the_side
    assert set(stops) <= set(entered)


def test_a_due_run_takes_the_way_that_the_page_shows(app: App) -> None:
    stops, rows = table(DUE_RUN)
    walk, tracer = ran(app, writer_of(app))
    assert rooms_of(walk) == [stop.room for stop in stops]
    assert not tracer.written_on_the_side
    ahead = iter(walk)
    assert [row for row in rows if row in ahead] == rows
    called = iter(tracer.called)
    assert [step for step in steps_of_an_attempt() if step in called] == steps_of_an_attempt()


def test_with_servers_the_walks_are_those_that_the_page_shows(
    postgres_url: str, valkey_url: str, tmp_path: Path
) -> None:
    given = {"database_url": postgres_url, "redis_url": valkey_url, "redis_namespace": tmp_path.name}
    settings = Settings.model_validate(
        {**given, "timezone": "UTC", "desktop_notifications": "off", "yield_to_load": False}
    )
    migrate_store(postgres_url)
    with build(settings, role=Role.WORK) as app:
        assert rooms_of(called(app)[0]) == rooms_with_servers("a call")
        walk, _ = ran(app)
    rooms = rooms_of(walk)
    assert rooms == rooms_with_servers("a due run")
    assert len(rooms) <= MAX_STOPS

"""Measure what reading costs when there are a million tasks, on SQLite and on PostgreSQL.

    python benchmarks/bench_million.py [--tasks 1000000] [--repeat 10] [--database all] [--only search] [--keep DIR]

The tables are filled by SQL of the database's own: one tenant, and a run for each task (three of five open). Each run
has two events, and one event of a hundred a reason. A figure is milliseconds of CPU for one call. On PostgreSQL it is
that of the server's processes, with the part of this process behind it; on SQLite it is that of this process. Read
README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from duetime.scheduler.events import EventFilter
from duetime.scheduler.intake.validation import MAX_TASKS_COUNTED
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from sqlalchemy import Connection, text

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import services

TENANT = LOCAL.tenant
RARE, COMMON, MIDDLING = "zebra", "call", "dentist"
"""Words in one title of 200,000, in one of three, and in one of a hundred."""
SEVERAL, TOGETHER = "number 777", "number 77"
"""Words in 1,111 titles of a million, and in 11,111: most of these are far down the list, one behind the other."""

SHORT, FOREIGN = "zz", "会議室"
"""Words without a trigram: the second on a PostgreSQL database with LC_CTYPE C, as the benchmark's own is."""

PAGE_ROWS = 50
TICKS_PER_S = 100
PARENT_INDEX = 0
OWN_TICKS, TICKS_OF_ENDED = (10, 11), (12, 13)
"""Places in `/proc/PID/stat` behind the state of a process: its parent, its ticks, and those of children that ended."""

DAY_US = 86_400_000_000

TITLE = (
    "CASE WHEN n % 3 = 0 THEN 'Call' ELSE 'Write to' END || ' person number ' || n || "
    "CASE WHEN n % 200000 = 7 THEN ' about the Zebra' WHEN n % 100 = 5 THEN ' and the Dentist' ELSE '' END"
)
REASON = "CASE WHEN n % 200000 = 9 THEN 'the giraffe has no time' WHEN n % 100 = 11 THEN 'HTTP 503 from call' END"
ENDED = "n % 5 >= 3"
STATE = "CASE n % 5 WHEN 3 THEN 'succeeded' WHEN 4 THEN 'failed' ELSE 'scheduled' END"

TASKS = f"""
INSERT INTO tasks (id, tenant, owner, title, title_folded, action, payload, timezone, "when", anchor, paused, retry,
    deliver_to, labels, revision, created_at, updated_at)
SELECT 't_' || n, '{TENANT}', 'local', {TITLE}, lower({TITLE}),
    CASE WHEN n % 2 = 0 THEN 'reminder' ELSE 'webhook' END, '{{}}', 'UTC', 'noon', AT(n), false,
    '{{"max_attempts":5,"backoff":1,"max_backoff":60}}', '[]', '[]', 1, AT(n), AT(n)
FROM numbers"""
RUNS = f"""
INSERT INTO runs (id, task_id, tenant, scheduled_for, state, generation, number, current, wake_at, ended_at, listed_at,
    attempt, failures, crashes, missed, cancel_requested)
SELECT 'r_' || n, 't_' || n, '{TENANT}', AT(n), {STATE}, 1, 1, true, CASE WHEN {ENDED} THEN NULL ELSE AT(n) END,
    CASE WHEN {ENDED} THEN AT(n) END, AT(n), 0, 0, 0, 0, false
FROM numbers"""
EVENTS = f"""
INSERT INTO events (tenant, task_id, run_id, seq, at, kind, actor, reason, to_state)
SELECT '{TENANT}', 't_' || n, 'r_' || n, s, AT(n), CASE s WHEN 1 THEN 'created' ELSE 'rescheduled' END, 'local',
    CASE WHEN s = 2 THEN {REASON} END, CASE s WHEN 1 THEN 'scheduled' END
FROM numbers, (SELECT 1 AS s UNION ALL SELECT 2) AS twice"""

Call = Callable[[Store], object]
CALLS: dict[str, Call] = {
    "list": lambda store: page(store, TaskFilter()),
    "list failed": lambda store: page(store, TaskFilter(states=(State.FAILED,))),
    f"list {RARE} (1 of 200,000)": lambda store: page(store, TaskFilter(query=RARE)),
    f"list {MIDDLING} (1 of 100)": lambda store: page(store, TaskFilter(query=MIDDLING)),
    f"list {SEVERAL} (1 of 900)": lambda store: page(store, TaskFilter(query=SEVERAL)),
    f"list {TOGETHER} (1 of 90, all in a row)": lambda store: page(store, TaskFilter(query=TOGETHER)),
    f"list {COMMON} (1 of 3)": lambda store: page(store, TaskFilter(query=COMMON)),
    "list nothing": lambda store: page(store, TaskFilter(query="no such title")),
    f"list {SHORT} (no title)": lambda store: page(store, TaskFilter(query=SHORT)),
    f"list {FOREIGN} (no title)": lambda store: page(store, TaskFilter(query=FOREIGN)),
    "history": lambda store: store.history.events(TENANT, EventFilter(), limit=PAGE_ROWS),
    f"history {RARE} (title)": lambda store: said(store, RARE),
    "history giraffe (reason)": lambda store: said(store, "giraffe"),
    f"history {MIDDLING}": lambda store: said(store, MIDDLING),
    f"history {SEVERAL}": lambda store: said(store, SEVERAL),
    f"history {TOGETHER}": lambda store: said(store, TOGETHER),
    f"history {COMMON}": lambda store: said(store, COMMON),
    "history nothing": lambda store: said(store, "no such text"),
    f"history {SHORT}": lambda store: said(store, SHORT),
    f"history {FOREIGN}": lambda store: said(store, FOREIGN),
}


def page(store: Store, where: TaskFilter) -> None:
    """Read what `list_tasks` shows: a page and the counts."""
    store.tasks.page_and_counts(TENANT, where, limit=PAGE_ROWS, most=MAX_TASKS_COUNTED)


def said(store: Store, words: str) -> None:
    store.history.events(TENANT, EventFilter(text=words), limit=PAGE_ROWS)


def fill(store: Store, count: int) -> None:
    """Write the tasks with their runs and events, and the statistics that a planner goes by."""

    def work(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            numbers = f"(SELECT generate_series(1, {count}) AS n) AS numbers"
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        else:
            numbers = "numbers"
        for statement in (TASKS, RUNS, EVENTS):
            connection.exec_driver_sql(
                _in_words_of(connection, statement.replace("FROM numbers", f"FROM {numbers}"), count)
            )

    store._database.write(work)  # noqa: SLF001 - no door of the store writes a million tasks
    store._database.write(lambda connection: connection.execute(text("ANALYZE")))  # noqa: SLF001 - as above


def _in_words_of(connection: Connection, statement: str, count: int) -> str:
    if connection.dialect.name == "postgresql":
        instant = "timestamptz '2026-01-01' + n * interval '1 minute'"
        return statement.replace("AT(n)", instant).replace("%", "%%")  # what the driver takes for a parameter
    series = f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) SELECT"
    return statement.replace("AT(n)", f"({20454 * DAY_US} + n * 60000000)").replace("SELECT", series, 1)


def measure(store: Store, call: Call, repeat: int) -> tuple[float, float, float]:
    """Return milliseconds of a call: the server's CPU, this process's CPU, and until the answer."""
    call(store)  # plans, and pages into memory
    pids = _servers(store)
    before, own, wall = _cpu_s(pids), time.process_time(), time.perf_counter()
    for _ in range(repeat):
        call(store)
    found = (_cpu_s(pids) - before, time.process_time() - own, time.perf_counter() - wall)
    server, process, passed = (round(seconds / repeat * 1000, 1) for seconds in found)
    return server, process, passed


def _servers(store: Store) -> list[int]:
    def work(connection: Connection) -> list[int]:
        if connection.dialect.name != "postgresql":
            return []
        mine = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        return list(connection.exec_driver_sql(mine).scalars())

    return store._database.read(work)  # noqa: SLF001 - which processes serve it nobody else asks


def _cpu_s(pids: list[int]) -> float:
    """Return the CPU of PostgreSQL's processes, and of those that ended: workers that one query had in parallel."""
    ended = {_stat(pid)[PARENT_INDEX] for pid in pids}
    ticks = [_stat(pid)[field] for pid in pids for field in OWN_TICKS]
    ticks += [_stat(pid)[field] for pid in ended for field in TICKS_OF_ENDED]
    return sum(ticks) / TICKS_PER_S


def _stat(pid: int) -> list[int]:
    _state, *numbers = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return [*map(int, numbers)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--database", choices=["all", "sqlite", "postgres"], default="all")
    parser.add_argument("--only", default="", help="measure only calls whose name has this in it")
    parser.add_argument("--keep", type=Path, help="folder of a database that stays filled for the next call")
    parser.add_argument("--fill", action="store_true", help="fill the database, and measure nothing")
    asked = parser.parse_args()
    for name in ("postgres", "sqlite") if asked.database == "all" else (asked.database,):
        with opened(name, asked.keep) as store:
            filled(store, name, asked.tasks)
            for title, call in CALLS.items():
                if asked.only in title and not asked.fill:
                    print(json.dumps({title: measure(store, call, asked.repeat)}), flush=True)


def filled(store: Store, name: str, count: int) -> None:
    """Fill an empty database; on SQLite the index of texts as well, which the runner does otherwise."""
    if store.tasks.page(TENANT, TaskFilter(), limit=1)[0]:
        return
    began = time.perf_counter()
    fill(store, count)
    while store.search.advance():
        pass
    print(f"{name}: {count} tasks in {time.perf_counter() - began:.0f} s; ms: server CPU, own CPU, passed")


@contextmanager
def opened(name: str, keep: Path | None) -> Iterator[Store]:
    with ExitStack() as stack:
        store = open_store(database_url(name, keep, stack), synchronous="OFF")
        stack.callback(store.close)
        yield store


def database_url(name: str, keep: Path | None, stack: ExitStack) -> str:
    """Return the URL of a database of its own; a kept one is on the server of DUETIME_TEST_POSTGRES_URL."""
    if name == "sqlite":
        return f"sqlite:///{keep or stack.enter_context(tempfile.TemporaryDirectory())}/bench.db"
    server = stack.enter_context(services.postgres_server())
    return server if keep else stack.enter_context(services.postgres_database(server))


if __name__ == "__main__":
    main()

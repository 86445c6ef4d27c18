"""Measure what the history costs with a million runs and four million events, on SQLite and on PostgreSQL.

    python benchmarks/bench_history.py [--runs 1000000] [--repeat 20] [--database all] [--only worker]
        [--keep DIR] [--cpu]

The tables are filled by SQL of the database's own: one tenant, and a year of runs. Each task has five runs, each run
four events and an attempt. Rare things are among the oldest runs, where a walk back in time comes last. A figure is
milliseconds until the first page (50 rows) is here: the median, the 95th percentile, and how many rows it has. `short`
stands for a page that continues behind the runs that it compared. With `--cpu` it is the CPU of this process, which is
all of the work on SQLite, whatever else the machine does. Read README.md here before quoting a number.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from statistics import quantiles

from duetime.scheduler.events import EventFilter
from duetime.scheduler.history.runs import BucketWidth, RunFilter, RunGroup
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from sqlalchemy import Connection, text

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_million import DAY_US, opened

TENANT = LOCAL.tenant
PAGE_ROWS = 50
RUNS_OF_TASK_COUNT = 5
FIRST_DAY_INDEX = 20454  # 1 January 2026, in days since 1970
START = datetime(2026, 1, 1, tzinfo=UTC)
SPAN_S = 30_000_000
"""Seconds between the first run and the last, however many there are: 347 days."""

EVENTS_OF_RUN_COUNT = 4

TASK_COUNT = f"(:runs / {RUNS_OF_TASK_COUNT})"
OPEN = "n > :runs - :runs / 50"
RARE = "n < :runs / 10 AND n % 3331 = 7"
"""Thirty runs of the first month."""

STATE = f"""CASE WHEN {OPEN} THEN 'scheduled' WHEN {RARE} THEN 'expired' WHEN n % 20 = 3 THEN 'failed'
    WHEN n % 100 = 5 THEN 'cancelled' ELSE 'succeeded' END"""
ERROR = f"CASE WHEN {RARE} THEN 'the giraffe has no time' WHEN n % 20 = 3 THEN 'HTTP 503 from the service' END"
ACTION = f"CASE WHEN n % 3331 = 11 AND n < {TASK_COUNT} / 3 THEN 'export' ELSE 'action_' || (n % 10) END"
WORKER = f"CASE WHEN {RARE} THEN 'w-rare' ELSE 'w-' || (n % 40) END"
LABEL = "CASE WHEN n % 3331 = 17 THEN 'rare' ELSE 'label-' || (n % 20) END"
TITLE = "'Task ' || n || CASE WHEN n % 100 = 5 THEN ' and the Dentist' WHEN n = 77 THEN ' about the Zebra' ELSE '' END"

TASKS = f"""
INSERT INTO tasks (id, tenant, owner, title, title_folded, action, payload, timezone, "when", anchor, paused, retry,
    deliver_to, labels, revision, created_at, updated_at, priority)
SELECT 't_' || n, '{TENANT}', CASE WHEN n % 3331 = 13 AND n < {TASK_COUNT} / 3 THEN 'mallory' ELSE 'alice' END,
    {TITLE}, lower({TITLE}), {ACTION}, '{{}}', 'UTC', 'noon', AT(n), false,
    '{{"max_attempts":5,"backoff":1,"max_backoff":60}}', '[]', CAST('["' || {LABEL} || '"]' AS LABELS), 1, AT(n), AT(n),
    CASE WHEN n % 10 = 1 THEN 'high' ELSE 'normal' END
FROM numbers WHERE n <= {TASK_COUNT}"""
LABELS = f"""
INSERT INTO task_labels (tenant, label, task_id)
SELECT '{TENANT}', {LABEL}, 't_' || n
FROM numbers WHERE n <= {TASK_COUNT}"""
RUNS = f"""
INSERT INTO runs (id, task_id, tenant, scheduled_for, state, generation, number, current, wake_at, started_at, ended_at,
    listed_at, attempt, failures, crashes, missed, cancel_requested, error, worker, deadline)
SELECT 'r_' || (100000000 + n), 't_' || (1 + n % {TASK_COUNT}), '{TENANT}', AT(n), {STATE}, 1,
    1 + n / {TASK_COUNT}, n > :runs - {TASK_COUNT}, CASE WHEN {OPEN} THEN AT(n) END,
    CASE WHEN {OPEN} THEN NULL ELSE AFTER(n, CASE WHEN {RARE} THEN 4000 ELSE 1 END) END,
    CASE WHEN {OPEN} THEN NULL ELSE AFTER(n, CASE WHEN {RARE} THEN 9000 ELSE 2 END) END,
    CASE WHEN {OPEN} THEN AT(n) ELSE AFTER(n, CASE WHEN {RARE} THEN 9000 ELSE 2 END) END,
    CASE WHEN {OPEN} THEN 0 WHEN {RARE} THEN 5 WHEN n % 20 = 3 THEN 2 ELSE 1 END, 0, 0, 0, false, {ERROR},
    CASE WHEN {OPEN} THEN NULL ELSE {WORKER} END, CASE WHEN n % 4 = 3 THEN AFTER(n, 600) END
FROM numbers"""
ATTEMPTS = f"""
INSERT INTO attempts (run_id, number, worker, started_at, ended_at, outcome, reason)
SELECT 'r_' || (100000000 + n), 1, {WORKER}, AFTER(n, 1), AFTER(n, 2), 'done', {ERROR}
FROM numbers WHERE NOT ({OPEN})"""
USAGE = f"""
INSERT INTO usage (run_id, attempt, pool, tenant, units, at)
SELECT 'r_' || (100000000 + n), 1, CASE WHEN {RARE} THEN 'gpu' ELSE 'tokens' END, '{TENANT}', n % 5000, AFTER(n, 2)
FROM numbers WHERE n % 10 = 3 OR ({RARE})"""
FIRST_KIND = f"CASE WHEN n <= {TASK_COUNT} THEN 'created' ELSE 'next_occurrence' END"
EVENTS = f"""
INSERT INTO events (tenant, task_id, run_id, seq, at, kind, actor, reason, from_state, to_state)
SELECT '{TENANT}', 't_' || (1 + n % {TASK_COUNT}), 'r_' || (100000000 + n), 4 * (n / {TASK_COUNT}) + s, AFTER(n, s),
    CASE s WHEN 1 THEN {FIRST_KIND} WHEN 2 THEN 'ready' WHEN 3 THEN 'started' ELSE 'ended' END,
    CASE WHEN s > 2 THEN {WORKER} WHEN s = 1 AND ({RARE}) THEN 'mallory' ELSE 'duetime' END,
    CASE WHEN s = 4 THEN {ERROR} END,
    CASE s WHEN 2 THEN 'scheduled' WHEN 3 THEN 'ready' WHEN 4 THEN 'running' END,
    CASE s WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ready' WHEN 3 THEN 'running' ELSE {STATE} END
FROM numbers, (SELECT 1 AS s UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4) AS four"""
TABLES = (TASKS, LABELS, RUNS, ATTEMPTS, USAGE, EVENTS)

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
SINCE, UNTIL = (START + timedelta(days=days) for days in (20, 40))
RUN_FILTERS: dict[str, RunFilter] = {
    "all": RunFilter(),
    "a time range": RunFilter(since=SINCE, until=UNTIL),
    "state failed (1 of 20)": RunFilter(states=(State.FAILED,)),
    "state expired (30)": RunFilter(states=(State.EXPIRED,)),
    "state running (none)": RunFilter(states=(State.RUNNING,)),
    "failed in a time range": RunFilter(states=(State.FAILED, State.EXPIRED), since=SINCE, until=UNTIL),
    "action (1 of 10)": RunFilter(action="action_7"),
    "action (100 runs)": RunFilter(action="export"),
    "tier (1 of 10)": RunFilter(tier=Tier.HIGH),
    "tier (none)": RunFilter(tier=Tier.CRITICAL),
    "label (1 of 20)": RunFilter(label="label-3"),
    "label (300 runs)": RunFilter(label="rare"),
    "worker (1 of 40)": RunFilter(worker="w-13"),
    "worker (30, all old)": RunFilter(worker="w-rare"),
    "actor (all)": RunFilter(actor="alice"),
    "actor (100, spread)": RunFilter(actor="mallory"),
    "text in one title": RunFilter(text="zebra"),
    "text in 1 of 100 titles": RunFilter(text="dentist"),
    "text of a rare error": RunFilter(text="giraffe"),
    "text of a common error": RunFilter(text="HTTP 503"),
    "text (none)": RunFilter(text="no such text"),
    "title (1)": RunFilter(title="zebra"),
    "title (1 of 100)": RunFilter(title="dentist"),
    "title (none)": RunFilter(title="no such text"),
    "error (1 of 20)": RunFilter(error="HTTP 503"),
    "error (30, all old)": RunFilter(error="giraffe"),
    "duration >= 1 s (all)": RunFilter(min_duration=timedelta(seconds=1)),
    "duration >= 1 h (30, all old)": RunFilter(min_duration=HOUR),
    "ended after the deadline (8, all old)": RunFilter(min_lateness=timedelta(0)),
    "started late (30, all old)": RunFilter(min_delay=MINUTE),
    "attempts >= 2 (1 of 20)": RunFilter(min_attempts=2),
    "attempts >= 3 (30, all old)": RunFilter(min_attempts=3),
    "pool (1 of 10)": RunFilter(pool="tokens", min_units=1000),
    "pool (30, all old)": RunFilter(pool="gpu"),
    "failed, action, worker": RunFilter(states=(State.FAILED,), action="action_3", worker="w-3"),
}
EVENT_FILTERS: dict[str, EventFilter] = {
    "all": EventFilter(),
    "a time range": EventFilter(since=SINCE, until=UNTIL),
    "moves to failed": EventFilter(state=State.FAILED),
    "moves to expired (30, all old)": EventFilter(state=State.EXPIRED),
    "action (1 of 10)": EventFilter(action="action_7"),
    "action (400 events)": EventFilter(action="export"),
    "label (1 of 20)": EventFilter(label="label-3"),
    "text in one title": EventFilter(text="zebra"),
    "text of a rare error": EventFilter(text="giraffe"),
    "text of a common error": EventFilter(text="HTTP 503"),
    "title (1)": EventFilter(title="zebra"),
    "title (1 of 100)": EventFilter(title="dentist"),
    "duration >= 1 h (30 runs, all old)": EventFilter(min_duration=HOUR),
    "tier (1 of 10)": EventFilter(tier=Tier.HIGH),
    "worker (1 of 40)": EventFilter(worker="w-3"),
    "worker (30 runs, all old)": EventFilter(worker="w-rare"),
    "attempts >= 2 (1 of 20)": EventFilter(min_attempts=2),
    "late (runs of events)": EventFilter(min_lateness=MINUTE),
    "cost (none)": EventFilter(min_cost=Decimal(1)),
    "error of the run (1 of 20)": EventFilter(error="HTTP 503"),
    "error of the run (30, all old)": EventFilter(error="giraffe"),
    "moves to failed, worker, error": EventFilter(state=State.FAILED, worker="w-3", error="HTTP 503"),
}

Call = Callable[[Store], str]


def calls() -> dict[str, Call]:
    found: dict[str, Call] = {f"runs: {name}": partial(_runs, where) for name, where in RUN_FILTERS.items()}
    found["runs: all, of all tenants"] = partial(_runs, RunFilter(), tenant=None)
    found |= {f"events: {name}": partial(_events, where) for name, where in EVENT_FILTERS.items()}
    found |= {f"count by {group}": partial(_counted, group) for group in RunGroup}
    return found | {f"count by {width}": partial(_buckets, width) for width in BucketWidth}


def _runs(where: RunFilter, store: Store, tenant: str | None = TENANT) -> str:
    page = store.run_history.page(tenant, where, limit=PAGE_ROWS)
    return f"{len(page.runs)}{' short' if page.searched_to else ''}"


def _events(where: EventFilter, store: Store) -> str:
    page = store.history.events(TENANT, where, limit=PAGE_ROWS)
    return f"{len(page.events)}{' short' if page.searched_to else ''}"


def _counted(group: RunGroup, store: Store) -> str:
    return f"{sum(store.run_history.counts(TENANT, RunFilter(), group).counts.values())} runs"


def _buckets(width: BucketWidth, store: Store) -> str:
    return f"{len(store.run_history.buckets(TENANT, RunFilter(), width).buckets)} buckets"


def measure(store: Store, call: Call, repeat: int, clock: Callable[[], float]) -> tuple[float, float, str]:
    """Return the median and the 95th percentile of a call in milliseconds by the clock, and what it found."""
    found = call(store)  # plans, and pages into memory
    taken = []
    for _ in range(repeat):
        began = clock()
        call(store)
        taken.append((clock() - began) * 1000)
    parts = quantiles(taken, n=20, method="inclusive")
    return round(parts[9], 1), round(parts[18], 1), found


def fill(store: Store, count: int) -> None:
    """Write the tasks with all that belongs to them, and the statistics that a planner goes by."""

    def work(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        for statement in TABLES:
            connection.exec_driver_sql(_in_words_of(connection, statement.replace(":runs", str(count)), count))

    store._database.write(work)  # noqa: SLF001 - no door of the store writes a million runs
    store._database.write(lambda connection: connection.execute(text("ANALYZE")))  # noqa: SLF001 - as above


def _in_words_of(connection: Connection, statement: str, count: int) -> str:
    gap_us = SPAN_S * 1_000_000 // count
    if connection.dialect.name == "postgresql":
        statement = statement.replace("AS LABELS)", "AS jsonb)")
        instant = f"timestamptz '2026-01-01' + n * interval '{gap_us} microseconds'"
        numbers = f"FROM (SELECT generate_series(1, {count}) AS n) AS numbers"
        statement = statement.replace("FROM numbers", numbers).replace("AT(n)", f"({instant})")
        return _after(statement, f"({instant} + (", ") * interval '1 s')").replace("%", "%%")
    series = f"WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) SELECT"
    instant = f"({FIRST_DAY_INDEX * DAY_US} + n * {gap_us}"
    statement = _after(statement.replace("AT(n)", f"{instant})"), f"{instant} + (", ") * 1000000)")
    return statement.replace("SELECT", series, 1).replace("AS LABELS)", "AS TEXT)")


def _after(statement: str, begin: str, end: str) -> str:
    """Write `AFTER(n, seconds)`; the seconds may have brackets of their own."""
    head, found, rest = statement.partition("AFTER(n, ")
    if not found:
        return statement
    depth, at = 1, 0
    while depth:
        depth += {"(": 1, ")": -1}.get(rest[at], 0)
        at += 1
    return f"{head}{begin}{rest[: at - 1]}{end}{_after(rest[at:], begin, end)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--database", choices=["all", "sqlite", "postgres"], default="all")
    parser.add_argument("--only", default="", help="measure only calls whose name has this in it")
    parser.add_argument("--keep", type=Path, help="folder of a database that stays filled for the next call")
    parser.add_argument("--fill", action="store_true", help="fill the database, and measure nothing")
    parser.add_argument("--cpu", action="store_true", help="measure the CPU of this process")
    asked = parser.parse_args()
    clock = time.process_time if asked.cpu else time.perf_counter
    for name in ("postgres", "sqlite") if asked.database == "all" else (asked.database,):
        with opened(name, asked.keep) as store:
            filled(store, name, asked.runs)
            for title, call in calls().items():
                if asked.only in title and not asked.fill:
                    print(json.dumps({f"{name} {title}": measure(store, call, asked.repeat, clock)}), flush=True)


def filled(store: Store, name: str, count: int) -> None:
    """Fill an empty database; on SQLite the index of texts as well, which the runner does otherwise."""
    if store.run_history.page(TENANT, RunFilter(), limit=1).runs:
        return
    began = time.perf_counter()
    fill(store, count)
    while store.search.advance():
        pass
    print(f"{name}: {count} runs in {time.perf_counter() - began:.0f} s; ms: median, 95th percentile; what was found")


if __name__ == "__main__":
    main()

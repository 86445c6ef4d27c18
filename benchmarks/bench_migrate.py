"""Measure how long an upgrade of the schema lets others wait, in a database with many runs.

    python benchmarks/bench_migrate.py [--runs 100000] [--from 0001] [--database postgres|sqlite]

The tables are made as a version of before had them, and filled. Each run has a task, an attempt, a key, a message and
four events. Then `migrate_store` upgrades them, while a writer stores one task after the other as the old code did,
each in a transaction of its own. Steps are the times between two versions; `after` is what follows the transaction of
the upgrade (indexes that are built while others write). Read README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path

from duetime.scheduler.errors import SchemaTooNew, StoreUnavailable
from duetime.scheduler.store import migrate_store
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.migrations import run as running
from duetime.scheduler.store.store import connect

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_million import database_url

SHOWN_S = 0.02
"""Steps that take less are not named."""

WRITE_PAUSE_S = 0.005

NUMBERS = {
    "postgresql": "generate_series({first}, {last}) AS n",
    "sqlite": "(WITH RECURSIVE numbers(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM numbers WHERE n < {last})"
    " SELECT n FROM numbers)",
}
AT = {
    "postgresql": "(TIMESTAMPTZ '2026-01-01 00:00+00' + n * interval '30 seconds')",
    "sqlite": "(1767225600000000 + n * 30000000)",
}
WORDS = {"postgresql": {"yes": "true", "no": "false"}, "sqlite": {"yes": "1", "no": "0"}}

TASKS = """INSERT INTO tasks (id, tenant, owner, title, action, payload, timezone, "when", anchor, paused, retry,
    deliver_to, labels, revision, created_at, updated_at, title_folded) SELECT 't_' || n, 'acme', 'alice',
    'Call number ' || n, 'reminder', '{{"message":"Hi"}}', 'UTC', 'noon', {at}, {no},
    '{{"max_attempts":5,"backoff":1,"max_backoff":60}}', '["inbox"]', '[]', 1, {at}, {at}, 'call number ' || n
    FROM {numbers}"""
RUNS = """INSERT INTO runs (id, task_id, tenant, scheduled_for, state, generation, number, current, wake_at, attempt,
    failures, crashes, missed, cancel_requested, listed_at, started_at, ended_at) SELECT 'r_' || n, 't_' || n, 'acme',
    {at}, CASE WHEN n % 10 = 0 THEN 'scheduled' WHEN n % 50 = 1 THEN 'failed' ELSE 'succeeded' END, 1, 1, {yes},
    CASE WHEN n % 10 = 0 THEN {at} END, CASE WHEN n % 10 = 0 THEN 0 ELSE 1 END, 0, 0, 0, {no}, {at},
    CASE WHEN n % 10 > 0 THEN {at} END, CASE WHEN n % 10 > 0 THEN {at} END FROM {numbers}"""
ATTEMPTS = """INSERT INTO attempts (run_id, number, worker, started_at, ended_at, outcome)
    SELECT 'r_' || n, 1, 'host-1', {at}, {at}, 'done' FROM {numbers} WHERE n % 10 > 0"""
EVENTS = """INSERT INTO events (tenant, task_id, run_id, seq, at, kind, actor, reason) SELECT 'acme', 't_' || n,
    'r_' || n, {seq}, {at}, 'created', 'alice', CASE WHEN {seq} = 4 AND n % 10 = 3 THEN 'asked for by ' || n END
    FROM {numbers}"""
KEYS = """INSERT INTO idempotency_keys (tenant, key, task_id, fingerprint, derived)
    SELECT 'acme', 'k_' || n, 't_' || n, '{{}}', {no} FROM {numbers}"""
FILLS = [TASKS, RUNS, ATTEMPTS, KEYS, *(EVENTS.replace("{seq}", str(seq)) for seq in range(1, 5))]


def filled(url: str, version: str, count: int) -> None:
    """Make the tables of a version, with so many runs."""
    database = connect(url)
    database.migrate(lambda connection: running.run(connection, version))
    database.write(lambda connection: [connection.exec_driver_sql(sql) for sql in inserts(url, 1, count)])
    database.close()


def inserts(url: str, first: int, last: int) -> list[str]:
    dialect = "sqlite" if url.startswith("sqlite") else "postgresql"
    numbers = NUMBERS[dialect].format(first=first, last=last)
    made = [sql.format(numbers=numbers, at=AT[dialect], **WORDS[dialect]) for sql in FILLS]
    return made if dialect == "sqlite" else [sql.replace("%", "%%") for sql in made]  # psycopg's own sign


class Writer:
    """Stores a task after the other, and remembers for how long the longest one had to wait."""

    def __init__(self, url: str, first: int) -> None:
        self._url = url
        self._numbers = iter(range(first, sys.maxsize))
        self._ended = threading.Event()
        self.longest_s = 0.0
        self.written = 0

    @contextmanager
    def writing(self) -> Iterator[None]:
        database = connect(self._url)
        thread = threading.Thread(target=self._write, args=(database,))
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()
            database.close()

    def _write(self, database: Database) -> None:
        while not self._ended.wait(WRITE_PAUSE_S):
            number = next(self._numbers)
            statements = inserts(self._url, number, number)
            began = time.perf_counter()
            while not self._stored(database, statements):
                pass
            self.longest_s = max(self.longest_s, time.perf_counter() - began)
            self.written += 1

    @staticmethod
    def _stored(database: Database, statements: list[str]) -> bool:
        try:
            database.write(lambda connection: [connection.exec_driver_sql(sql) for sql in statements])
        except (StoreUnavailable, SchemaTooNew):
            return False
        return True


def measure(url: str, version: str, count: int) -> None:
    filled(url, version, count)
    marks = [(version, time.perf_counter())]
    writer = Writer(url, count + 1)
    with writer.writing():
        time.sleep(1)
        began = time.perf_counter()
        marks[0] = (version, began)
        migrate_store(url, lambda reached: marks.append((reached, time.perf_counter())))
        ended = time.perf_counter()
        time.sleep(0.5)
    steps = [(now[0], now[1] - before[1]) for before, now in pairwise(marks)]
    for name, took in [*steps, ("after", ended - marks[-1][1])]:
        if took >= SHOWN_S:
            print(f"{name:>6} {took:8.2f} s")
    print(f"{count} runs, {version} to {marks[-1][0]}: {ended - began:.2f} s")
    print(f"the longest wait of a writer: {writer.longest_s:.2f} s, of {writer.written} writes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--from", dest="version", default="0001")
    parser.add_argument("--database", choices=("postgres", "sqlite"), default="postgres")
    given = parser.parse_args()
    with ExitStack() as stack:
        measure(database_url(given.database, None, stack), given.version, given.runs)


if __name__ == "__main__":
    main()

"""Measure how many rows and bytes a run leaves in the database, on SQLite and on PostgreSQL.

    python benchmarks/bench_size.py [--runs 100000] [--batch 500] [--database all]

Each task is scheduled, made ready, started and settled by the statements of the store, and leaves a message. Then the
bytes of each table with its indexes are read, from `dbstat` on SQLite and from `pg_total_relation_size` on PostgreSQL.
Rows that were updated there have not been vacuumed away. A figure is bytes for one run.
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from duetime.scheduler.ids import new_id
from duetime.scheduler.run_records import Claim, Settlement, Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage, State
from sqlalchemy import Connection, text

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_store import LEASE, done, new_task, parts, stores

SQLITE_BYTES = """
SELECT coalesce(parent.tbl_name, stat.name), sum(stat.pgsize) FROM dbstat AS stat
LEFT JOIN sqlite_schema AS parent ON parent.name = stat.name GROUP BY 1"""
POSTGRES_BYTES = "SELECT relname, pg_total_relation_size(relid) FROM pg_stat_user_tables"
TABLES = ("tasks", "task_labels", "runs", "attempts", "events", "inbox", "deliveries", "idempotency_keys", "usage")


def create(store: Store, runs: int, batch: int) -> None:
    """Take so many tasks of one run each from the schedule to the end."""
    for part in parts(list(range(runs)), batch):
        now = store.now() - timedelta(seconds=1)
        store.tasks.add_many([new_task(now) for _ in part])
        ready = store.claims.make_ready(limit=batch)
        starts = [Start(run.run_id, new_id("n")) for run in ready]
        claims = store.claims.start(starts, worker="host-1234-5678", epoch=None, lease=LEASE)
        store.claims.settle([told(claim) for claim in claims])


def told(claim: Claim) -> Settlement:
    """End a run with a message to its owner, as a reminder does."""
    task, run = claim.task, claim.run
    message = InboxMessage(
        new_id("m"), task.tenant, task.owner, task.id, run.id, task.title, "Done.", State.SUCCEEDED, run.scheduled_for
    )
    return replace(done(claim), inbox=message)


def sizes(store: Store) -> dict[str, int]:
    """Return the bytes of each table with its indexes."""

    def work(connection: Connection) -> dict[str, int]:
        asked = SQLITE_BYTES if connection.dialect.name == "sqlite" else POSTGRES_BYTES
        return {name: size for name, size in connection.execute(text(asked)) if size}

    return store._database.read(work)  # noqa: SLF001 - no door of the store knows sizes


def rows(store: Store) -> dict[str, int]:
    def work(connection: Connection) -> dict[str, int]:
        return {name: connection.execute(text(f"SELECT count(*) FROM {name}")).scalar_one() for name in TABLES}

    return store._database.read(work)  # noqa: SLF001 - no door of the store counts all rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--database", choices=["all", "sqlite", "postgres"], default="all")
    asked = parser.parse_args()
    with ExitStack() as stack:
        for name, store in stores(stack, asked.database):
            before = sizes(store)
            create(store, asked.runs, asked.batch)
            grown = {table: size - before.get(table, 0) for table, size in sizes(store).items()}
            each = {table: round(size / asked.runs) for table, size in grown.items() if size >= asked.runs}
            many = {table: round(count / asked.runs, 2) for table, count in rows(store).items() if count}
            print(
                json.dumps({name: {"bytes": sum(each.values()), "by table": each, "rows": many}}, indent=1), flush=True
            )


if __name__ == "__main__":
    main()

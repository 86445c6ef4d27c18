"""Plans of PostgreSQL are kept: one that was made while there was next to nothing must not scan what has come since."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.records import NewTask
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database.table_statistics import MIN_CHANGES
from sqlalchemy import Connection

from tests import services
from tests.builders import Clock, a_task, settlement, started

pytestmark = pytest.mark.postgres

FOUND_BY_ID = ("SELECT tasks.id", "WITH ended AS", "WITH wish AS", "WITH moved AS")
"""Beginnings of the statements that lock, settle, start and make ready: each run of these is given by its id."""


@pytest.fixture
def store(postgres_server: str, clock: Clock) -> Iterator[Store]:
    """Open a store of its own, whose tables are analysed by nobody but the test."""
    with services.postgres_database(postgres_server) as url:
        opened = open_store(url, clock=clock)
        for table in ("tasks", "runs", "events", "attempts"):
            command(opened, f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        yield opened
        opened.close()


def command(store: Store, sql: str) -> None:
    store._database.write(lambda connection: connection.exec_driver_sql(sql))


def settle_some(store: Store) -> None:
    for _ in range(8):  # the server keeps a plan from the sixth time on
        store.claims.settle([settlement(started(store))])


def plans(store: Store) -> list[str]:
    """Return the plans that the session which settles keeps."""

    def explained(connection: Connection) -> list[str]:
        kept = connection.exec_driver_sql("SELECT name, statement, parameter_types FROM pg_prepared_statements").all()
        found: list[str] = []
        for name, statement, types in kept:
            if statement.startswith(FOUND_BY_ID):
                given = f"({', '.join('NULL' for _ in types)})" if types else ""
                found += connection.exec_driver_sql(f"EXPLAIN EXECUTE {name}{given}").scalars().all()
        return found

    command(store, "SET plan_cache_mode = force_generic_plan")
    return store._database.write(explained)


def by_another_index(told: list[str]) -> list[str]:
    return [line.strip() for line in told if "on runs" in line and "Scan" in line and "runs_pk" not in line]


def test_rows_are_found_by_their_ids_in_tables_that_are_new(store: Store) -> None:
    settle_some(store)
    told = plans(store)
    assert any("Update on runs" in line for line in told)
    assert by_another_index(told) == []
    assert not [line for line in told if "Seq Scan" in line or "Hash Join" in line or "Merge Join" in line]


def test_statements_are_planned_again_when_a_table_outgrows_its_statistics(store: Store) -> None:
    settle_some(store)
    command(store, "DELETE FROM events; DELETE FROM attempts; DELETE FROM runs; DELETE FROM tasks")
    command(store, "ANALYZE tasks, runs")
    settle_some(store)
    assert by_another_index(plans(store)) != []
    store.tasks.add_many([NewTask(*a_task(), "alice") for _ in range(MIN_CHANGES)])
    command(store, "SELECT pg_stat_force_next_flush()")
    Maintenance(store, MemoryQueue()).step()
    assert by_another_index(plans(store)) == []
    assert store.table_statistics.refresh() == []

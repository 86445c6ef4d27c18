"""The end of a run in an older generation of a chain costs the same, however long the chain has run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed
from duetime.scheduler.request import StepArguments
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.tasks import runs
from sqlalchemy import Connection, event, insert, select

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk
from tests.contracts.store.hourly_chain import Hourly

pytestmark = on_each_database

GENERATION_COUNT = 3_000
MAX_ROWS_READ = 100
"""Rows of runs that one statement reads; the chain has two steps, of which each had as many runs as generations."""

STEPS: list[StepArguments] = [
    {"name": "fetch"},
    {"name": "load", "after": ["fetch"], "wait_for": {"event": "rows", "timeout": "5 hours"}},
]
Statements = list[tuple[str, Any]]


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def with_history(desk: Desk) -> tuple[Hourly, Claim]:
    """Return a chain with runs of many generations, and the run of its first step in the older of two open ones."""
    chain = Hourly(desk, STEPS, policy={"pause_after": 3})
    desk.end(desk.start(9))
    desk.nothing_due(9, 1)
    [second] = chain.overtaken(10)
    desk.scheduler.signals.send("rows")
    desk.end([claim for claim in desk.start(10, 1) if claim.run.number == 1])
    desk.store._database.write(lambda connection: _add(connection, chain))
    chain.overtaken(11)
    return chain, second


def _add(connection: Connection, chain: Hourly) -> None:
    columns = [column for column in runs.c if column.computed is None]
    ended = [runs.c.task_id.in_(chain.steps.values()), runs.c.number == 1]
    first = [row._asdict() for row in connection.execute(select(*columns).where(*ended))]
    assert len(first) == len(STEPS)
    more = list[dict[str, Any]]()
    for place in range(1, GENERATION_COUNT):
        apart = {"number": 1 - place if place % 2 else 1 + place}
        back = timedelta(minutes=place)
        times = ("scheduled_for", "ended_at", "started_at", "listed_at")
        rows = [{**row, **{name: row[name] - back for name in times}, **apart} for row in first]
        more += [{**row, "id": f"{row['id']}{place}"} for row in rows]
    connection.execute(insert(runs), more)
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("ANALYZE runs")


@contextmanager
def read(store: Store) -> Iterator[Statements]:
    """Collect the statements that read runs."""
    asked: Statements = []

    def note(_connection: object, _cursor: object, sql: str, values: Any, *_: object) -> None:
        if sql.lstrip().startswith(("SELECT", "WITH")) and not re.search("INSERT INTO|UPDATE [a-z]", sql):
            asked.append((sql, values))

    event.listen(store._database.engine, "before_cursor_execute", note)
    yield asked
    event.remove(store._database.engine, "before_cursor_execute", note)


def too_costly(store: Store, asked: Statements) -> list[str]:
    """Return the scans of runs that would read many rows."""

    def explained(connection: Connection) -> list[str]:
        find = _in_postgres if connection.dialect.name == "postgresql" else _in_sqlite
        return [f"{scan}: {sql}" for sql, values in asked for scan in find(connection, sql, values)]

    return store._database.write(explained)


def _in_postgres(connection: Connection, sql: str, values: Any) -> Iterator[str]:
    [plan] = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}", values).scalars()
    yield from _scans((plan if isinstance(plan, list) else json.loads(plan))[0]["Plan"])


def _scans(node: dict[str, Any]) -> Iterator[str]:
    rows = (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"]
    if node.get("Relation Name") == "runs" and rows > MAX_ROWS_READ:
        yield f"{node['Node Type']} by {node.get('Index Name')} reads {rows}"
    for child in node.get("Plans", ()):
        yield from _scans(child)


def _in_sqlite(connection: Connection, sql: str, values: Any) -> Iterator[str]:
    for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", values):
        step: str = row.detail
        whole = "USING INDEX runs_by" in step and step.endswith("(task_id=?)")
        if step.startswith("SCAN runs") or whole:
            yield step


@pytest.mark.parametrize("outcome", [Done("fetched"), Failed("away")], ids=["done", "failed"])
def test_the_end_of_a_run_in_an_older_generation_reads_that_generation_alone(
    desk: Desk, outcome: Done | Failed
) -> None:
    _, second = with_history(desk)
    with read(desk.store) as asked:
        desk.end([second], outcome)
        desk.nothing_due(11, 2)
    assert any("number" in sql for sql, _ in asked)
    assert too_costly(desk.store, asked) == []


def test_a_step_reads_the_results_of_its_generation_alone(desk: Desk) -> None:
    chain, second = with_history(desk)
    desk.end([second])
    desk.nothing_due(11, 1)
    desk.scheduler.signals.send("rows")
    [load] = [claim for claim in desk.start(11, 3) if claim.task.id == chain.steps["load"]]
    with read(desk.store) as asked:
        assert chain.inputs(load) == {"fetch": None}
    assert too_costly(desk.store, asked) == []

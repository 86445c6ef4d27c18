"""Maintenance looks without a transaction that writes, for which all writers of a file would wait."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import pytest
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.statements import dependants
from duetime.scheduler.task import State
from sqlalchemy import Connection, delete

from tests.builders import Clock
from tests.contracts.store.damages import damage
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk

pytestmark = on_each_database


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    upstreams = store.dependencies.known
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", upstreams=upstreams)), store, clock)


@pytest.fixture
def writes(store: Store, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the transactions that write, by the names of their work."""
    begun: list[str] = []
    write = store._database.write

    def counted(work: Callable[..., Any], **how: Any) -> Any:
        begun.append(work.__qualname__)
        return write(work, **how)

    monkeypatch.setattr(store._database, "write", counted)
    return begun


def chained(desk: Desk) -> tuple[str, str]:
    first = desk.scheduler.schedule("First", when="in 1 hour").record.task.id
    return first, desk.scheduler.schedule("Second", after=[first]).record.task.id


def test_a_look_that_finds_nothing_begins_no_transaction_that_writes(desk: Desk, writes: list[str]) -> None:
    chained(desk)
    desk.scheduler.reschedule(desk.hourly(), pause=True)
    desk.scheduler.schedule("Ship", wait_for={"event": "paid", "timeout": "1 hour"})
    maintenance = Maintenance(desk.store, MemoryQueue())
    maintenance.step()
    writes.clear()
    maintenance._look()
    assert writes == []


def test_a_task_whose_upstream_is_forgotten_goes_on_by_one_transaction(desk: Desk, writes: list[str]) -> None:
    _, second = chained(desk)
    desk.store._database.write(lambda connection: connection.execute(delete(dependencies)))
    writes.clear()
    assert desk.store.dependencies.repair(limit=9) == 1
    assert len(writes) == 1
    assert desk.scheduler.get(second).record.run.state is State.SCHEDULED


@pytest.mark.damages
def test_a_damaged_run_fails_by_one_transaction(url: str, desk: Desk, writes: list[str]) -> None:
    task_id = desk.hourly()
    found = desk.scheduler.get(task_id).record.run.id
    never = "'infinity'" if url.startswith("postgres") else "9000000000000000000"
    damage(url, "runs", "wake_at", never, id=found)
    writes.clear()
    assert desk.store.claims.fail_damaged() == [found]
    assert len(writes) == 1


@pytest.mark.damages
def test_a_task_that_cannot_go_on_holds_up_no_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [chained(desk)[1] for _ in range(3)]
    desk.store._database.write(lambda connection: connection.execute(delete(dependencies)))
    settle = dependants.settle_waiting

    def failing(connection: Connection, task_ids: Sequence[str], now: datetime, **how: Any) -> Any:
        if waiting[0] in task_ids:
            raise ValueError("a row that nobody can write")
        return settle(connection, task_ids, now, **how)

    monkeypatch.setattr(dependants, "settle_waiting", failing)
    assert [desk.store.dependencies.repair(limit=9) for _ in range(2)] == [2, 0]
    states = [desk.scheduler.get(task_id).record.run.state for task_id in waiting]
    assert states == [State.WAITING, State.SCHEDULED, State.SCHEDULED]

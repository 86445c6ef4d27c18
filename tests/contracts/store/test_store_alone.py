"""PostgreSQL: a statement that is a transaction of its own waits for others, and then goes by what they have stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.store import Change, Claim, Start, Store, journal, open_store
from duetime.scheduler.task import State, TaskRecord
from sqlalchemy import Connection, text

from tests.contracts.store.conftest import emptied
from tests.contracts.store.making import LEASE, NOON, TENANT, Clock, added

pytestmark = pytest.mark.postgres

Decide = Callable[[TaskRecord], Change]

WAITING = text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE :words"
)


@pytest.fixture
def stores(postgres_tables: str, clock: Clock) -> Iterator[list[Store]]:
    """Two stores on one database, as two processes would have them."""
    url = emptied(postgres_tables)
    opened = [open_store(url, clock=clock) for _ in range(2)]
    yield opened
    for store in opened:
        store.close()


def until_it_waits(store: Store, words: str) -> None:
    """Return when a session waits for a lock with a statement that begins with these words."""
    with store._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        asked = time.monotonic()
        while not connection.execute(WAITING, {"words": f"{words}%"}).scalar_one():
            assert time.monotonic() < asked + 20, f"nobody waits with {words!r}"


def claim(store: Store, run_id: str, **reserved: int) -> list[Claim]:
    return store.claims.start([Start(run_id, "token", reserved)], worker="w", epoch=None, lease=LEASE)


def kinds(store: Store, task_id: str) -> list[EventKind]:
    found = store.history.events(TENANT, EventFilter(task_id=task_id), limit=99).events[::-1]
    assert [event.seq for event in found] == list(range(1, len(found) + 1))
    return [event.kind for event in found]


def claimed_during(stores: list[Store], kind: EventKind, decide: Decide, **reserved: int) -> tuple[str, list[Claim]]:
    """Return the task, and what a claim starts that waits while another process changes the task."""
    record = added(stores[0])
    stores[0].claims.make_ready(limit=9)
    claims: list[Future[list[Claim]]] = []

    def slowly(found: TaskRecord) -> Change:
        claims.append(pool.submit(claim, stores[1], record.run.id, **reserved))
        until_it_waits(stores[0], "WITH locked")
        return decide(found)

    with ThreadPoolExecutor(1) as pool:
        stores[0].tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=slowly)
        return record.task.id, claims[0].result(20)


def test_what_is_cancelled_while_a_claim_waits_is_not_started(stores: list[Store]) -> None:
    def cancel(it: TaskRecord) -> Change:
        return Change(it.task, replace(it.run, state=State.CANCELLED))

    task_id, claims = claimed_during(stores, EventKind.CANCELLED, cancel)
    assert claims == []
    assert kinds(stores[0], task_id) == [EventKind.CREATED, EventKind.READY, EventKind.CANCELLED]


def test_what_shall_be_cancelled_is_not_started(stores: list[Store]) -> None:
    def ask(it: TaskRecord) -> Change:
        return Change(it.task, replace(it.run, cancel_requested=True))

    assert claimed_during(stores, EventKind.CANCEL_REQUESTED, ask)[1] == []


def test_what_is_paused_while_a_claim_waits_is_not_started(stores: list[Store]) -> None:
    def pause(it: TaskRecord) -> Change:
        return Change(replace(it.task, paused=True), it.run)

    assert claimed_during(stores, EventKind.PAUSED, pause)[1] == []


def test_what_needs_more_by_now_than_was_reserved_is_not_started(stores: list[Store]) -> None:
    def need(it: TaskRecord) -> Change:
        return Change(replace(it.task, needs={"gpu": 2}), it.run)

    assert claimed_during(stores, EventKind.RESCHEDULED, need, gpu=1)[1] == []
    assert len(claimed_during(stores, EventKind.RESCHEDULED, need, gpu=2)[1]) == 1


def test_what_is_put_off_while_a_claim_waits_is_not_started(stores: list[Store]) -> None:
    def later(it: TaskRecord) -> Change:
        return Change(it.task, replace(it.run, state=State.SCHEDULED, wake_at=NOON.replace(hour=20)))

    assert claimed_during(stores, EventKind.SNOOZED, later)[1] == []


def test_a_claim_brings_the_task_as_it_was_changed_while_it_waited(stores: list[Store]) -> None:
    def rename(it: TaskRecord) -> Change:
        return Change(replace(it.task, title="Call Jane"), it.run)

    task_id, [started] = claimed_during(stores, EventKind.RESCHEDULED, rename)
    record = stores[0].tasks.get(TENANT, task_id)
    assert (started.task, started.run) == (record.task, record.run)
    assert (started.task.title, started.task.revision, started.run.attempt) == ("Call Jane", 2, 1)
    assert kinds(stores[0], task_id)[-2:] == [EventKind.RESCHEDULED, EventKind.STARTED]


def held_open(
    stores: list[Store], record: TaskRecord, work: Callable[[Connection], Any], *, words: str = "WITH locked"
) -> list[Claim]:
    """Return what a claim starts that waits for the end of this work, with a statement that begins with these words."""

    def slowly(connection: Connection) -> Future[list[Claim]]:
        work(connection)
        waiting = pool.submit(claim, stores[1], record.run.id)
        until_it_waits(stores[0], words)
        return waiting

    with ThreadPoolExecutor(1) as pool:
        return stores[0]._database.write(slowly).result(20)


def test_a_claim_that_waits_for_a_run_to_be_made_ready_starts_it(stores: list[Store]) -> None:
    record = added(stores[0])

    def make_ready(connection: Connection) -> None:
        connection.execute(text("SELECT 1 FROM tasks FOR UPDATE"))
        connection.execute(text("UPDATE runs SET state = 'ready', wake_at = NULL, first_ready_at = wake_at"))
        ready = journal.entry(
            TENANT,
            record.task.id,
            record.run.id,
            NOON,
            kind=EventKind.READY,
            actor=journal.ITSELF,
            move=(State.SCHEDULED, State.READY),
        )
        journal.append(connection, [ready])

    [started] = held_open(stores, record, make_ready, words="SELECT tasks.id")
    assert (started.run.id, started.run.attempt) == (record.run.id, 1)
    assert kinds(stores[0], record.task.id) == [EventKind.CREATED, EventKind.READY, EventKind.STARTED]


def test_a_claim_waits_for_what_is_changed_of_a_run_without_its_task(stores: list[Store]) -> None:
    record = added(stores[0])
    stores[0].claims.make_ready(limit=9)
    later = NOON.replace(hour=20)

    def redate(connection: Connection) -> None:
        values = {"at": later, "id": record.run.id}
        connection.execute(text("UPDATE runs SET drop_at = :at, attempt = 4 WHERE id = :id"), values)

    [started] = held_open(stores, record, redate)
    assert (started.run.drop_at, started.run.attempt) == (later, 5)

"""PostgreSQL: a statement that is a transaction of its own waits for others, and then goes by what they have stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.events import DUETIME_ACTOR, EventFilter, EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.run_records import Claim, Start, Verdict
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.sql import commit_notes
from duetime.scheduler.store.statements import event_log, settle
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, text

from tests.builders import LEASE, NOON, TENANT, Clock, a_run, added, message, settlement, started

pytestmark = pytest.mark.postgres

Decide = Callable[[TaskRecord], Change]

WAITING = text(
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE :words"
)


@pytest.fixture
def stores(empty_postgres: str, clock: Clock) -> Iterator[list[Store]]:
    """Two stores on one database, as two processes would have them."""
    url = empty_postgres
    opened = [open_store(url, clock=clock) for _ in range(2)]
    yield opened
    for store in opened:
        store.close()


STARTING = "WITH wish"
"""The first words of the statement that starts runs."""


def until_it_waits(store: Store, words: str) -> None:
    """Return when a session waits for a lock with a statement that begins with these words."""
    with store._database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        asked = time.monotonic()
        while not connection.execute(WAITING, {"words": f"{words}%"}).scalar_one():
            assert time.monotonic() < asked + 60, f"nobody waits with {words!r}"


def claims_of(store: Store, run_id: str, **reserved: int) -> list[Claim]:
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
        claims.append(pool.submit(claims_of, stores[1], record.run.id, **reserved))
        until_it_waits(stores[0], STARTING)
        return decide(found)

    with ThreadPoolExecutor(1) as pool:
        stores[0].tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=slowly)
        return record.task.id, claims[0].result(60)


def test_a_run_cancelled_while_a_claim_waits_is_not_started(stores: list[Store]) -> None:
    def cancel(it: TaskRecord) -> Change:
        return Change(it.task, replace(it.run, state=State.CANCELLED))

    task_id, claims = claimed_during(stores, EventKind.CANCELLED, cancel)
    assert claims == []
    assert kinds(stores[0], task_id) == [EventKind.CREATED, EventKind.READY, EventKind.CANCELLED]


def test_a_run_with_a_requested_cancel_is_not_started(stores: list[Store]) -> None:
    assert claimed_during(stores, EventKind.CANCEL_REQUESTED, ask_to_cancel)[1] == []


def test_a_task_paused_while_a_claim_waits_is_not_started(stores: list[Store]) -> None:
    def pause(it: TaskRecord) -> Change:
        return Change(replace(it.task, paused=True), it.run)

    assert claimed_during(stores, EventKind.PAUSED, pause)[1] == []


def test_a_run_that_now_needs_more_than_was_reserved_is_not_started(stores: list[Store]) -> None:
    def need(it: TaskRecord) -> Change:
        return Change(replace(it.task, needs={"gpu": 2}), it.run)

    assert claimed_during(stores, EventKind.RESCHEDULED, need, gpu=1)[1] == []
    assert len(claimed_during(stores, EventKind.RESCHEDULED, need, gpu=2)[1]) == 1


def test_a_run_put_off_while_a_claim_waits_is_not_started(stores: list[Store]) -> None:
    def later(it: TaskRecord) -> Change:
        return Change(it.task, replace(it.run, state=State.SCHEDULED, wake_at=NOON.replace(hour=20)))

    assert claimed_during(stores, EventKind.SNOOZED, later)[1] == []


def test_a_claim_brings_the_task_as_it_was_changed_while_it_waited(stores: list[Store]) -> None:
    task_id, [claimed] = claimed_during(stores, EventKind.RESCHEDULED, rename)
    record = stores[0].tasks.get(TENANT, task_id)
    assert (claimed.task, claimed.run) == (record.task, record.run)
    assert (claimed.task.title, claimed.task.revision, claimed.run.attempt) == ("Call Jane", 2, 1)
    assert kinds(stores[0], task_id)[-2:] == [EventKind.RESCHEDULED, EventKind.STARTED]


def held_open(
    stores: list[Store], record: TaskRecord, work: Callable[[Connection], Any], *, words: str = STARTING
) -> list[Claim]:
    """Return what a claim starts that waits for the end of this work, with a statement that begins with these words."""

    def slowly(connection: Connection) -> Future[list[Claim]]:
        work(connection)
        waiting = pool.submit(claims_of, stores[1], record.run.id)
        until_it_waits(stores[0], words)
        return waiting

    with ThreadPoolExecutor(1) as pool:
        return stores[0]._database.write(slowly).result(60)


def test_a_claim_that_waits_for_a_run_to_be_made_ready_starts_it(stores: list[Store]) -> None:
    record = added(stores[0])

    def make_ready(connection: Connection) -> None:
        connection.execute(text("SELECT 1 FROM tasks FOR UPDATE"))
        connection.execute(text("UPDATE runs SET state = 'ready', wake_at = NULL, first_ready_at = wake_at"))
        ready = event_log.entry(
            TENANT,
            record.task.id,
            record.run.id,
            NOON,
            kind=EventKind.READY,
            actor=DUETIME_ACTOR,
            move=(State.SCHEDULED, State.READY),
        )
        event_log.append(connection, [ready])

    [claimed] = held_open(stores, record, make_ready, words="")
    assert (claimed.run.id, claimed.run.attempt) == (record.run.id, 1)
    assert kinds(stores[0], record.task.id) == [EventKind.CREATED, EventKind.READY, EventKind.STARTED]


def test_a_claim_waits_for_what_is_changed_of_a_run_without_its_task(stores: list[Store]) -> None:
    record = added(stores[0])
    stores[0].claims.make_ready(limit=9)
    later = NOON.replace(hour=20)

    def redate(connection: Connection) -> None:
        values = {"at": later, "id": record.run.id}
        connection.execute(text("UPDATE runs SET drop_at = :at, attempt = 4 WHERE id = :id"), values)

    [claimed] = held_open(stores, record, redate)
    assert (claimed.run.drop_at, claimed.run.attempt) == (later, 5)


# --- settling ---------------------------------------------------------------------------------------------------------


def settled_during(
    stores: list[Store], claims: list[Claim], kind: EventKind, decide: Decide, to: State
) -> list[Verdict]:
    """Return the verdicts on a settlement of all that waits while another process changes the first one's task."""
    verdicts: list[Future[list[Verdict]]] = []
    ended = [settlement(claim, to, inbox=message(claim)) for claim in claims]

    def slowly(found: TaskRecord) -> Change:
        verdicts.append(pool.submit(stores[1].claims.settle, ended))
        until_it_waits(stores[0], "WITH ended")
        return decide(found)

    with ThreadPoolExecutor(1) as pool:
        stores[0].tasks.change(TENANT, claims[0].task.id, actor="alice", kind=kind, decide=slowly)
        return verdicts[0].result(60)


def ask_to_cancel(it: TaskRecord) -> Change:
    return Change(it.task, replace(it.run, cancel_requested=True))


def rename(it: TaskRecord) -> Change:
    return Change(replace(it.task, title="Call Jane"), it.run)


def test_a_run_that_ends_while_its_task_is_changed_ends_once_behind_the_change(stores: list[Store]) -> None:
    claims = [started(stores[0]) for _ in range(3)]
    verdicts = settled_during(stores, claims, EventKind.RESCHEDULED, rename, State.SUCCEEDED)
    assert verdicts == [Verdict.SETTLED] * 3
    assert kinds(stores[0], claims[0].task.id)[-2:] == [EventKind.RESCHEDULED, EventKind.SUCCEEDED]
    assert kinds(stores[0], claims[1].task.id)[-2:] == [EventKind.STARTED, EventKind.SUCCEEDED]
    assert len(stores[0].inbox.unread(TENANT, "alice")) == 3


def test_a_continuation_after_a_requested_cancel_is_stale(stores: list[Store]) -> None:
    claims = [started(stores[0]) for _ in range(2)]
    verdicts = settled_during(stores, claims, EventKind.CANCEL_REQUESTED, ask_to_cancel, State.SUSPENDED)
    assert verdicts == [Verdict.STALE, Verdict.SETTLED]
    assert stores[0].tasks.get(TENANT, claims[0].task.id).run.state is State.RUNNING


def test_only_the_process_that_ends_a_run_reports_it(stores: list[Store]) -> None:
    claim = started(stores[0])
    late = settlement(claim, inbox=message(claim), used={"tokens": 3})

    def slowly(connection: Connection) -> Future[list[Verdict]]:
        first = settlement(claim, State.FAILED, inbox=message(claim), dead_letter=True)
        with commit_notes.collected(connection):
            assert settle.settle(connection, [first], NOON) == [Verdict.SETTLED]
        waiting = pool.submit(stores[1].claims.settle, [late])
        until_it_waits(stores[0], "WITH ended")
        return waiting

    with ThreadPoolExecutor(1) as pool:
        assert stores[0]._database.write(slowly).result(60) == [Verdict.FENCED]
    assert kinds(stores[0], claim.task.id)[-2:] == [EventKind.STARTED, EventKind.FAILED]
    assert stores[0].tasks.get(TENANT, claim.task.id).run.state is State.FAILED


def test_of_two_ends_of_one_run_in_one_group_the_first_counts(stores: list[Store]) -> None:
    claim, other = started(stores[0]), started(stores[0])
    first, second = settlement(claim, inbox=message(claim)), settlement(claim, State.FAILED, inbox=message(claim))
    verdicts = stores[0].claims.settle([first, settlement(other), second])
    assert verdicts == [Verdict.SETTLED, Verdict.SETTLED, Verdict.FENCED]
    assert kinds(stores[0], claim.task.id)[-1] is EventKind.SUCCEEDED


@pytest.mark.parametrize("to", [State.SUCCEEDED, State.FAILED, State.SUSPENDED])
def test_an_end_stores_the_same_run_by_one_statement_and_step_by_step(stores: list[Store], to: State) -> None:
    values: dict[str, Any] = {"summary": "mailed", "result": {"sent": 3}, "checkpoint": {"page": 7}, "failures": 1}
    values |= {"error": "no room"} if to is State.FAILED else {}
    values |= {"wake_at": NOON + timedelta(hours=1)} if to is State.SUSPENDED else {}
    one, other = started(stores[0]), started(stores[0])
    assert stores[0].claims.settle([settlement(one, to, **values)]) == [Verdict.SETTLED]
    assert stores[0].claims.settle([replace(settlement(other, to, **values), claim=None)]) == [Verdict.SETTLED]
    runs = [stores[0].tasks.get(TENANT, each.task.id).run for each in (one, other)]
    assert replace(runs[0], id="r_1", task_id="t_1") == replace(runs[1], id="r_1", task_id="t_1")
    assert {name: getattr(runs[0], name) for name in values} == values
    assert (runs[0].state, runs[0].attempt) == (to, 1)


@pytest.mark.parametrize("known", [True, False], ids=["outright", "step by step"])
def test_the_next_run_is_stored_with_the_rest(stores: list[Store], known: bool) -> None:
    one, daily = started(stores[0]), started(stores[0], repeat="FREQ=DAILY")
    following = a_run(daily.task, NOON + timedelta(days=1), number=2)
    ends = [settlement(daily, inbox=message(daily), next_run=following), settlement(one, inbox=message(one))]
    given = [each if known else replace(each, claim=None) for each in ends]
    assert stores[0].claims.settle(given) == [Verdict.SETTLED] * 2
    record = stores[0].tasks.get(TENANT, daily.task.id)
    assert record.run == following
    assert record.last_run is not None
    assert (record.last_run.id, record.last_run.current) == (daily.run.id, False)
    assert kinds(stores[0], daily.task.id)[-2:] == [EventKind.SUCCEEDED, EventKind.NEXT_OCCURRENCE]
    assert kinds(stores[0], one.task.id)[-1] is EventKind.SUCCEEDED


def test_the_next_run_is_left_out_where_the_end_was_not_written(stores: list[Store]) -> None:
    claims = [started(stores[0], repeat="FREQ=DAILY") for _ in range(2)]
    nexts = [a_run(claim.task, NOON + timedelta(days=1), number=2) for claim in claims]
    ends = [
        settlement(claim, inbox=message(claim), next_run=following)
        for claim, following in zip(claims, nexts, strict=True)
    ]
    stores[1].tasks.change(TENANT, claims[0].task.id, actor="a", kind=EventKind.RESCHEDULED, decide=rename)
    assert stores[0].claims.settle(ends) == [Verdict.STALE, Verdict.SETTLED]
    assert kinds(stores[0], claims[0].task.id)[-2:] == [EventKind.STARTED, EventKind.RESCHEDULED]
    assert [stores[0].tasks.get(TENANT, it.task.id).run.id for it in claims] == [claims[0].run.id, nexts[1].id]


def test_an_occurrence_that_stood_there_before_comes_as_the_next_generation(stores: list[Store]) -> None:
    daily = started(stores[0], repeat="FREQ=DAILY")
    following = a_run(daily.task, daily.run.scheduled_for, number=2)
    assert stores[0].claims.settle([settlement(daily, next_run=following)]) == [Verdict.SETTLED]
    assert stores[0].tasks.get(TENANT, daily.task.id).run.generation == 2

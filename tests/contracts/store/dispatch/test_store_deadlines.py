"""Deadlines: what can no longer be met expires or is relaxed, and each miss is told once."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.run_records import Claim, Settlement, Start
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements.endings.conclusions import Conclude
from duetime.scheduler.task import DeadlineType, Penalty, State, Tier
from duetime.scheduler.views import TaskRecord
from sqlalchemy import select

from tests.builders import (
    LEASE,
    NOON,
    TENANT,
    Clock,
    a_run,
    a_task,
    added,
    restarted,
    settlement,
    started,
    with_deadline,
)

HOUR = timedelta(hours=1)


def due_by(
    store: Store,
    after: timedelta = HOUR,
    *,
    due: datetime = NOON,
    kind: DeadlineType = DeadlineType.HARD,
    **values: Any,
) -> TaskRecord:
    """Store a task that is due at noon, must be finished `after` that and takes two seconds."""
    task, run = with_deadline(*a_task(due), after=after, deadline_type=kind, **values)
    return store.tasks.add(task, run, actor="alice").record


def missed(store: Store, task_id: str) -> list[Event]:
    page = store.history.events(TENANT, EventFilter(task_id=task_id), limit=99)
    return [event for event in page.events if event.kind is EventKind.DEADLINE_MISSED]


def state(store: Store, record: TaskRecord) -> State:
    return store.tasks.get(TENANT, record.task.id).run.state


def told(store: Store) -> Conclude:
    return lambda claim, end: with_consequences(claim, end, now=store.now())


def test_requested_urgency_comes_back_as_it_was_stored(store: Store) -> None:
    record = due_by(
        store,
        priority=Tier.HIGH,
        deadline="1 hour",
        penalty=Penalty.LINEAR,
        estimate=timedelta(seconds=90.25),
        needs={"gpu": 2, "tokens": 5000},
    )
    assert store.tasks.get(TENANT, record.task.id) == record


def test_a_ready_run_says_all_that_orders_it(store: Store, clock: Clock) -> None:
    record = due_by(store, priority=Tier.LOW, estimate=timedelta(minutes=2), needs={"gpu": 1})
    [made] = store.claims.make_ready(limit=9)
    assert (made.tier, made.tier.rank, made.needs, made.estimate) == (Tier.LOW, 4, {"gpu": 1}, timedelta(minutes=2))
    assert (made.deadline, made.drop_at) == (NOON + HOUR, NOON + HOUR - timedelta(seconds=2))
    assert (made.deadline_type, made.created_at, made.late) == (DeadlineType.HARD, record.task.created_at, False)
    clock.forward(minutes=5)
    assert store.claims.ready(limit=9) == [made]


def test_a_hard_run_that_cannot_be_in_time_expires_with_its_reason_and_without_an_attempt(
    store: Store, clock: Clock
) -> None:
    record = due_by(store, timezone="Asia/Tokyo")
    [ready] = store.claims.make_ready(limit=9)
    clock.forward(minutes=59, seconds=57)
    assert store.claims.expire(limit=9) == []
    assert store.claims.next_times().first() == NOON + HOUR - timedelta(seconds=2)
    clock.forward(seconds=1)
    [gone] = store.claims.expire(limit=9, conclude=told(store))
    assert (gone.run_id, gone.task_id) == (ready.run_id, record.task.id)
    assert store.claims.expire(limit=9) == []
    run = store.tasks.get(TENANT, record.task.id).run
    reason = "its deadline of Tue 24 Nov 2026 22:00 could no longer be met: it needs about 2 s"
    assert (run.state, run.ended_at, run.error, run.attempt) == (State.EXPIRED, clock.at, reason, 0)
    assert store.history.attempts(TENANT, record.task.id) == []
    events = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=9).events
    kinds = [(event.kind, event.from_state, event.to_state) for event in events]
    assert kinds[:2] == [(EventKind.DEADLINE_MISSED, None, None), (EventKind.EXPIRED, State.READY, State.EXPIRED)]
    assert events[1].reason == reason
    [message] = store.inbox.unread(TENANT, "alice")
    assert (message.state, message.text) == (State.EXPIRED, reason)
    [(delivery, _)] = store.deliveries.due(limit=9)
    assert delivery.channel == "desktop"
    assert store.claims.next_times().first() is None


@pytest.mark.parametrize("waits", [State.SCHEDULED, State.WAITING, State.SUSPENDED, State.RETRYING])
def test_a_run_expires_wherever_it_waits(store: Store, clock: Clock, waits: State) -> None:
    task, run = with_deadline(*a_task(), after=HOUR)
    if waits is State.WAITING:
        run = replace(run, state=State.WAITING, wake_at=None)
    record = store.tasks.add(task, run, actor="alice").record
    if waits in {State.SUSPENDED, State.RETRYING}:
        claim = restarted(store, record)
        store.claims.settle([settlement(claim, waits, wake_at=NOON + timedelta(days=1))])
    assert state(store, record) is waits
    clock.forward(hours=1)
    assert [it.task_id for it in store.claims.expire(limit=9)] == [record.task.id]
    assert state(store, record) is State.EXPIRED
    assert store.claims.make_ready(limit=9) == []


def test_a_running_run_is_left_to_its_handler_and_wakes_nobody(store: Store, clock: Clock) -> None:
    record = due_by(store)
    claim = restarted(store, record)
    clock.forward(hours=2)
    assert store.claims.expire(limit=9) == []
    assert store.claims.next_times().first() is None
    store.claims.settle([settlement(claim)])
    assert state(store, record) is State.SUCCEEDED


def test_a_hard_run_that_cannot_be_in_time_is_not_started(store: Store, clock: Clock) -> None:
    hard, soft = due_by(store), due_by(store, kind=DeadlineType.SOFT)
    ready = store.claims.make_ready(limit=9)
    clock.forward(minutes=59, seconds=58)
    starts = [Start(run.run_id) for run in ready]
    claims = store.claims.start(starts, worker="w", epoch=None, lease=LEASE)
    assert [claim.task.id for claim in claims] == [soft.task.id]
    assert state(store, hard) is State.READY


def test_the_next_occurrence_takes_over_from_one_that_expired(store: Store, clock: Clock) -> None:
    record = due_by(store, repeat="FREQ=DAILY")
    following = a_run(record.task, NOON + timedelta(days=1), number=2)

    def conclude(_: Claim, proposed: Settlement) -> Settlement:
        return replace(proposed, next_run=following)

    clock.forward(hours=1)
    store.claims.expire(limit=9, conclude=conclude)
    after = store.tasks.get(TENANT, record.task.id)
    assert (after.run.id, after.run.number) == (following.id, 2)
    assert after.last_run is not None
    assert after.last_run.state is State.EXPIRED


def test_a_paused_task_expires_when_it_is_resumed(store: Store, clock: Clock) -> None:
    record = due_by(store)

    def paused(it: TaskRecord) -> Change:
        return Change(replace(it.task, paused=not it.task.paused), it.run)

    store.tasks.change(TENANT, record.task.id, actor="a", kind=EventKind.PAUSED, decide=paused)
    clock.forward(hours=2)
    assert (store.claims.expire(limit=9), store.claims.next_times().first()) == ([], None)
    store.tasks.change(TENANT, record.task.id, actor="a", kind=EventKind.RESUMED, decide=paused)
    assert store.claims.next_times().first() is not None
    assert len(store.claims.expire(limit=9)) == 1


def test_a_soft_run_past_its_moment_is_relaxed_once_and_goes_on(store: Store, clock: Clock) -> None:
    record = due_by(store, kind=DeadlineType.SOFT)
    waiting = due_by(store, due=NOON + timedelta(days=1), after=timedelta(hours=-23), kind=DeadlineType.SOFT)
    store.claims.make_ready(limit=9)
    clock.forward(minutes=59, seconds=57)
    assert store.claims.relax(limit=9) == []
    clock.forward(seconds=3)
    [late] = store.claims.relax(limit=9)
    assert (late.task_id, late.late, late.deadline) == (record.task.id, True, NOON + HOUR)
    assert store.claims.relax(limit=9) == []
    assert store.claims.ready(limit=9)[0].late
    assert store.claims.expire(limit=9) == []
    assert store.claims.next_times().first() == NOON + timedelta(days=1)
    clock.forward(days=1)
    assert [run.late for run in store.claims.make_ready(limit=9)] == [True]
    assert state(store, waiting) is State.READY


def test_an_end_after_the_deadline_is_told_once_with_its_penalty(store: Store, clock: Clock) -> None:
    kinds = {Penalty.NONE: 0.0, Penalty.STEP: 1.0, Penalty.LINEAR: 0.5}
    claims = [restarted(store, due_by(store, kind=DeadlineType.SOFT, penalty=kind)) for kind in kinds]
    clock.forward(minutes=90)
    store.claims.settle([settlement(claim) for claim in claims])
    for claim, cost in zip(claims, kinds.values(), strict=True):
        [event] = missed(store, claim.task.id)
        assert event.after == {"deadline": (NOON + HOUR).isoformat(), "late_seconds": 1800.0, "penalty": cost}
        assert (event.run_id, event.attempt) == (claim.run.id, 1)


def test_a_failure_after_the_deadline_is_a_miss_and_a_retry_or_a_cancel_is_not(store: Store, clock: Clock) -> None:
    claims = [restarted(store, due_by(store, kind=DeadlineType.SOFT)) for _ in range(3)]
    ends = [State.FAILED, State.RETRYING, State.CANCELLED]
    clock.forward(hours=2)
    again = {State.RETRYING: clock.at}
    store.claims.settle([settlement(claim, to, wake_at=again.get(to)) for claim, to in zip(claims, ends, strict=True)])
    assert [len(missed(store, claim.task.id)) for claim in claims] == [1, 0, 0]


def test_an_end_in_time_or_without_a_deadline_is_no_miss(store: Store, clock: Clock) -> None:
    claims = [restarted(store, due_by(store)), started(store)]
    clock.forward(hours=1)
    store.claims.settle([settlement(claim) for claim in claims])
    assert [missed(store, claim.task.id) for claim in claims] == [[], []]


def test_a_running_run_keeps_what_is_reserved_for_it_until_it_ends(store: Store, clock: Clock) -> None:
    record = due_by(store, priority=Tier.HIGH, needs={"gpu": 1})
    other = due_by(store, kind=DeadlineType.SOFT)
    store.claims.make_ready(limit=9)
    [claim] = store.claims.start(
        [Start(record.run.id, "token-1", {"gpu": 1, "tenant:acme": 1})], worker="w7", epoch=None, lease=LEASE
    )
    assert (claim.token, claim.reserved) == ("token-1", {"gpu": 1, "tenant:acme": 1})
    [running] = store.claims.running(limit=9)
    assert (running.run_id, running.worker, running.attempt, running.tier) == (record.run.id, "w7", 1, Tier.HIGH)
    assert (running.reserved, running.token, running.needs) == ({"gpu": 1, "tenant:acme": 1}, "token-1", {"gpu": 1})
    assert (running.lease_until, running.created_at) == (clock.at + LEASE, record.task.created_at)
    assert store.claims.running(limit=9, after=running.run_id) == []
    store.claims.settle([settlement(claim, State.SUSPENDED, wake_at=NOON)])
    assert store.claims.running(limit=9) == []
    assert kept(store, record) == (None, None)
    store.claims.make_ready(limit=9)
    store.claims.start([Start(record.run.id), Start(other.run.id)], worker="w8", epoch=None, lease=LEASE)
    assert [(run.reserved, run.token) for run in store.claims.running(limit=9)] == [({}, "")] * 2
    clock.forward(minutes=1)
    store.claims.recover_lapsed(epoch=None, held=(), before=clock.at)
    assert store.claims.running(limit=9) == []
    store.claims.make_ready(limit=9)
    [again] = store.claims.start([Start(record.run.id, "token-3", {"gpu": 1})], worker="w9", epoch=None, lease=LEASE)
    assert kept(store, record) == ({"gpu": 1}, "token-3")
    assert again.run.attempt == 3
    clock.forward(minutes=1)
    store.claims.recover_lapsed(epoch=None, held=(), before=clock.at)
    assert kept(store, record) == (None, None)


@pytest.mark.parametrize(("reserved", "starts"), [({"gpu": 1}, False), ({}, False), ({"gpu": 4, "key:a": 1}, True)])
def test_a_run_never_starts_on_less_than_its_task_needs_by_now(
    store: Store, reserved: dict[str, int], *, starts: bool
) -> None:
    record = added(store, needs={"gpu": 4})
    store.claims.make_ready(limit=9)
    wish = Start(record.run.id, "token", reserved)
    assert len(store.claims.start([wish], worker="w", epoch=None, lease=LEASE)) == starts


def kept(store: Store, record: TaskRecord) -> tuple[object, object]:
    """Return what the run's row itself has of a reservation."""
    columns = select(runs.c.reserved, runs.c.token).where(runs.c.id == record.run.id)
    return store._database.read(lambda connection: tuple(connection.execute(columns).one()))


def test_a_moment_that_is_known_better_takes_the_place_of_one_that_is_still_ahead(store: Store, clock: Clock) -> None:
    task, run = with_deadline(*a_task(), after=HOUR)
    store.tasks.add(task, run, actor="alice")
    plain = added(store).run
    store.claims.redate({run.id: clock() + HOUR / 2, plain.id: clock() + HOUR / 2, "r_nowhere": clock()})

    assert store.tasks.get(TENANT, task.id).run.drop_at == clock() + HOUR / 2
    assert store.tasks.get(TENANT, plain.task_id).run.drop_at is None

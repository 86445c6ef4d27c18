"""The dispatcher moves what is due, when it is due, and sleeps no longer than it may."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from unittest.mock import ANY

import pytest
from duetime.scheduler.dispatch.dispatcher import MAX_RUNS_PER_BATCH, READY_AHEAD, Dispatcher
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.dispatch.rebuild import Refilled, refill
from duetime.scheduler.errors import RunnerReplaced, StoreUnavailable
from duetime.scheduler.events import EventKind
from duetime.scheduler.ids import runs_words
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.queue import Explanation, Finish, Kind, Limits
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.records import IdempotencyKey, NewTask
from duetime.scheduler.rules.changes import cancel, move, pause
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import NextTimes, ReadyRun, Start
from duetime.scheduler.runtime.notifier import RunEvent, RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import DeadlineType, State
from duetime.server.telemetry.notice_log import log_notice
from duetime.server.telemetry.run_log import log_runs

from tests.builders import (
    NOON,
    TENANT,
    Clock,
    a_task,
    added,
    restarted,
    settlement,
    started,
    with_deadline,
)

HOUR = timedelta(hours=1)


@pytest.fixture
def queue(clock: Clock) -> MemoryQueue:
    return MemoryQueue(lambda: clock().timestamp() * 1000)


def queued(queue: MemoryQueue) -> list[str]:
    found: list[str] = []
    while taken := queue.take("w", 9999, 1e6).run_ids:  # a take looks at so many and no more
        found += taken
    return found


def test_due_runs_are_queued_in_the_order_they_fell_due(store: Store, queue: MemoryQueue, clock: Clock) -> None:
    later = added(store, NOON + timedelta(minutes=2)).run.id
    sooner = added(store, NOON + timedelta(minutes=1)).run.id
    dispatcher = Dispatcher(store, queue)
    clock.forward(minutes=1)
    dispatcher.step()
    clock.forward(minutes=1)
    dispatcher.step()
    assert queued(queue) == [sooner, later]


def test_a_run_that_is_not_due_stays_where_it_is(store: Store, queue: MemoryQueue) -> None:
    record = added(store, NOON + READY_AHEAD + timedelta(seconds=1))
    assert Dispatcher(store, queue).step() == pytest.approx(1.0)
    assert queue.explain(record.run.id) is None
    assert store.tasks.get(TENANT, record.task.id).run.state is State.SCHEDULED


@pytest.mark.parametrize(("hours", "looks"), [(1, 0), (3, 1)], ids=["none", "one that has fired"])
def test_a_freed_run_is_queued_before_a_look_at_the_timers_unless_one_has_fired(
    store: Store, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch, hours: int, looks: int
) -> None:
    seconds, seen, look = [0.0], [0], store.claims.next_times

    def counted() -> NextTimes:
        seen[0] += 1
        return look()

    task, run = with_deadline(*a_task(scheduled_for=NOON + HOUR), after=HOUR)
    store.tasks.add(task, run, actor="alice")
    dispatcher = Dispatcher(store, queue, clock=lambda: seconds[0])
    dispatcher.step()
    monkeypatch.setattr(store.claims, "next_times", counted)
    freed = added(store).run.id
    seconds[0] = hours * 3600.0
    dispatcher.freed()
    assert dispatcher.step() == 0
    assert (queued(queue), seen) == ([freed], [looks])


def test_runs_that_are_freed_without_end_keep_no_timer_set_since_from_firing(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    dispatcher = Dispatcher(store, queue)
    dispatcher.step()
    task, run = with_deadline(*a_task(scheduled_for=NOON), after=timedelta(minutes=1))
    store.tasks.add(task, run, actor="alice")
    clock.forward(hours=1)
    for _ in range(2):
        added(store)
        dispatcher.freed()
        dispatcher.step()
    assert store.tasks.get(TENANT, task.id).run.state is State.EXPIRED


def test_a_run_due_in_a_moment_waits_in_the_queue_and_is_handed_out_at_its_time(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    later = added(store, NOON + timedelta(milliseconds=900)).run.id
    sooner = added(store, NOON + timedelta(milliseconds=300)).run.id
    assert Dispatcher(store, queue).step() == 0.0
    taken = queue.take("w", 9, 1e6)
    assert not taken.grants
    assert taken.hint == pytest.approx(0.3)
    clock.forward(milliseconds=299)
    assert queued(queue) == []
    clock.forward(milliseconds=1)
    assert queued(queue) == [sooner]
    clock.forward(milliseconds=600)
    assert queued(queue) == [later]


def test_a_rebuilt_queue_hands_out_nothing_before_its_time(store: Store, queue: MemoryQueue, clock: Clock) -> None:
    run = added(store, NOON + timedelta(seconds=1)).run
    Dispatcher(store, queue).step()
    clock.forward(milliseconds=400)
    anew = MemoryQueue(lambda: clock().timestamp() * 1000)
    assert refill(store, anew).added == 1
    clock.forward(milliseconds=599)
    assert queued(anew) == []
    clock.forward(milliseconds=1)
    assert queued(anew) == [run.id]


def test_an_attempt_more_is_dispatched_at_its_time_and_not_ahead(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    claim = started(store)
    again = clock.at + timedelta(seconds=1)
    store.claims.settle([settlement(claim, State.RETRYING, wake_at=again)])
    dispatcher = Dispatcher(store, queue)
    assert dispatcher.step() == pytest.approx(1.0)
    other = added(store, clock.at + timedelta(seconds=1)).run.id
    assert dispatcher.step() == 0.0
    assert (queue.explain(claim.run.id), queue.explain(other)) == (None, Explanation("delayed", not_before=ANY))
    clock.forward(seconds=1)
    dispatcher.step()
    assert queued(queue) == [claim.run.id, other]


def test_a_run_moved_or_paused_while_it_waits_for_its_time_does_not_start_then(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    moved, paused = (added(store, NOON + timedelta(seconds=1)) for _ in range(2))
    dispatcher = Dispatcher(store, queue)
    dispatcher.step()
    for record, kind, decide in (
        (moved, EventKind.RESCHEDULED, lambda found: move(found, NOON + HOUR, clock.at)),
        (paused, EventKind.PAUSED, pause),
    ):
        store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=decide)
    clock.forward(seconds=1)
    grants = queue.take("w", 9, 1e6).grants
    assert len(grants) == 2
    assert store.claims.start([Start(grant.run_id) for grant in grants], worker="w", epoch=None, lease=HOUR) == []
    queue.finish("w", [Finish(grant.run_id, grant.token) for grant in grants])
    clock.forward(minutes=59, seconds=58.5)
    assert dispatcher.step() == 0.0
    assert (queued(queue), store.tasks.get(TENANT, moved.task.id).run.state) == ([], State.READY)
    clock.forward(milliseconds=500)
    assert queued(queue) == [moved.run.id]


def test_it_sleeps_until_the_next_run_and_two_seconds_at_most(store: Store, queue: MemoryQueue, clock: Clock) -> None:
    dispatcher = Dispatcher(store, queue)
    assert dispatcher.step() == 2.0
    added(store, NOON + timedelta(hours=1))
    assert dispatcher.step() == 2.0
    clock.forward(minutes=59, seconds=58.5)
    assert dispatcher.step() == pytest.approx(0.5)


def test_a_hard_run_that_is_too_late_expires_leaves_the_queue_and_is_told(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    task, run = with_deadline(*a_task(deliver_to=("inbox", "desktop"), repeat="FREQ=DAILY"), after=HOUR)
    store.tasks.add(task, run, actor="alice")
    changed: list[str] = []
    dispatcher = Dispatcher(store, queue, notifier=RunNotifier(changed.extend))
    dispatcher.step()
    assert queue.explain(run.id) is not None
    clock.forward(minutes=59, seconds=57)
    assert dispatcher.step() == pytest.approx(1.0)
    clock.forward(seconds=1)
    changed.clear()
    assert dispatcher.step() == 0.0
    assert (queue.explain(run.id), queued(queue), changed) == (None, [], [task.id])
    record = store.tasks.get(TENANT, task.id)
    assert record.last_run is not None
    assert (record.last_run.id, record.last_run.state) == (run.id, State.EXPIRED)
    assert (record.run.scheduled_for, record.run.deadline) == (
        NOON + timedelta(days=1),
        NOON + timedelta(days=1) + HOUR,
    )
    [message] = store.inbox.unread(TENANT, "alice")
    assert message.state is State.EXPIRED
    assert [found.channel for found, _ in store.deliveries.due(limit=9)] == ["desktop"]


def test_a_soft_run_that_is_late_goes_by_its_patience_from_then_on(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    task, late = with_deadline(*a_task(), after=timedelta(seconds=20), deadline_type=DeadlineType.SOFT)
    other, pressing = with_deadline(*a_task(), after=timedelta(seconds=40), deadline_type=DeadlineType.SOFT)
    for item in ((task, late), (other, pressing)):
        store.tasks.add(*item, actor="alice")
    dispatcher = Dispatcher(store, queue)
    dispatcher.step()
    clock.forward(seconds=18)
    assert dispatcher.step() == 0.0
    assert dispatcher.step() == 2.0
    assert queued(queue) == [pressing.id, late.id]


def test_a_clock_that_jumped_fires_at_once_the_tasks_that_fell_due(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    record = added(store, NOON + timedelta(hours=8))
    dispatcher = Dispatcher(store, queue)
    assert dispatcher.step() == 2.0
    clock.forward(hours=9)
    dispatcher.step()
    assert queued(queue) == [record.run.id]


def test_many_due_runs_go_in_batches_without_a_pause(store: Store, queue: MemoryQueue) -> None:
    store.tasks.add_many([NewTask(*a_task(), actor="alice") for _ in range(MAX_RUNS_PER_BATCH + 1)])
    told: list[str] = []
    dispatcher = Dispatcher(store, queue, notifier=RunNotifier(told.extend))
    assert dispatcher.step() == 0.0
    assert len(told) == MAX_RUNS_PER_BATCH
    assert dispatcher.step() == 0.0
    assert dispatcher.step() == 2.0
    assert len(queued(queue)) == len(set(told)) == MAX_RUNS_PER_BATCH + 1


def test_two_dispatchers_never_queue_the_same_run(store: Store, queue: MemoryQueue, clock: Clock) -> None:
    for _ in range(5):
        added(store)
    other = MemoryQueue(lambda: clock().timestamp() * 1000)
    for each in (queue, other):
        Dispatcher(store, each).step()
    assert (len(queued(queue)), len(queued(other))) == (5, 0)


def test_a_dispatcher_of_an_older_epoch_moves_nothing(store: Store, queue: MemoryQueue) -> None:
    added(store)
    old = store.runners.take_over(pid=1, endpoint="127.0.0.1:1", token="a")
    store.runners.take_over(pid=2, endpoint="127.0.0.1:2", token="b")
    with pytest.raises(RunnerReplaced):
        Dispatcher(store, queue, epoch=old).step()
    assert queued(queue) == []


def test_a_paused_task_is_not_dispatched(store: Store, queue: MemoryQueue) -> None:
    record = added(store)
    store.tasks.change(TENANT, record.task.id, actor="alice", kind=EventKind.PAUSED, decide=pause)
    Dispatcher(store, queue).step()
    assert queued(queue) == []


def test_a_queue_that_lost_everything_is_filled_again_from_the_database(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    expected = {added(store).run.id for _ in range(5)}
    Dispatcher(store, queue).step()
    new = MemoryQueue(lambda: clock().timestamp() * 1000)
    assert refill(store, new).added == 5
    assert refill(store, new).added == 0
    assert set(queued(new)) == expected


def test_a_run_that_is_due_again_before_its_last_lease_has_ended_goes_on_when_it_has(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    record, dispatcher = added(store), Dispatcher(store, queue)
    dispatcher.step()
    [grant] = queue.take("w", 1, 30_000).grants
    wishes = [Start(grant.run_id, grant.token)]
    [claim] = store.claims.start(wishes, worker="w", epoch=None, lease=timedelta(seconds=30))
    store.claims.settle([settlement(claim, State.SUSPENDED, wake_at=clock())])
    beside = added(store).run.id
    dispatcher.step()  # after the commit, before the queue is notified
    assert queue.finish("w", [Finish(grant.run_id, grant.token)]) == set()
    assert set(queued(queue)) == {record.run.id, beside}


def test_a_run_whose_zone_cannot_be_read_ends_with_a_message_and_holds_up_no_other(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    odd = store.tasks.add(*with_deadline(*a_task(timezone="Mars/Olympus", repeat="FREQ=DAILY"), after=HOUR), actor="a")
    clock.forward(hours=2)
    other = added(store, clock.at)
    Dispatcher(store, queue).step()
    run = store.tasks.get(TENANT, odd.record.task.id).run
    assert run.state is State.EXPIRED
    assert "deadline of Tue 24 Nov 2026 13:00 UTC" in str(run.error)
    assert queued(queue) == [other.run.id]
    [message] = store.inbox.unread(TENANT, odd.record.task.owner)
    assert (message.run_id, message.state) == (run.id, State.EXPIRED)


def test_maintenance_finds_what_the_queue_lost(store: Store, queue: MemoryQueue) -> None:
    record = added(store)
    Dispatcher(store, queue).step()
    queue.cancel(record.run.id)
    Maintenance(store, queue).step()
    assert queued(queue) == [record.run.id]


def test_a_lease_of_a_dead_worker_ends_though_nothing_runs_and_what_it_never_started_goes_back(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    record = added(store)
    Dispatcher(store, queue).step()
    assert queue.take("dead", 1, 30_000).run_ids == (record.run.id,)
    maintenance = Maintenance(store, queue)
    for _ in range(9):  # seconds in steps, since a queue that nobody asks for long lets leases be
        clock.forward(seconds=4)
        maintenance.step()
    assert queue.take("alive", 1, 30_000).run_ids == (record.run.id,)


@pytest.mark.parametrize("back", [timedelta(), timedelta(days=30)])
def test_maintenance_forgets_keys_that_are_past_their_time_once_an_hour(
    store: Store, queue: MemoryQueue, clock: Clock, back: timedelta
) -> None:
    def key(name: str) -> IdempotencyKey:
        return IdempotencyKey(name, {}, clock.at + timedelta(minutes=1), derived=True)

    def pass_time(minutes: int) -> None:
        clock.forward(minutes=minutes)
        now[0] += minutes * 60
        maintenance.step()

    now = [0.0]
    maintenance = Maintenance(store, queue, clock=lambda: now[0])
    maintenance.step()
    clock.at -= back
    store.tasks.add(*a_task(), actor="alice", key=key("first"))
    pass_time(minutes=59)
    assert store.tasks.forget_keys() == 1
    store.tasks.add(*a_task(), actor="alice", key=key("second"))
    pass_time(minutes=2)
    assert store.tasks.forget_keys() == 0


@dataclass(frozen=True)
class Holding:
    """A worker that holds these runs, and hands back others whose start was never answered."""

    run_ids: set[str]
    gives_back: bool = False

    def held(self) -> set[str]:
        return self.run_ids

    def learn(self) -> None:
        """Do nothing: nothing was measured."""

    def give_back(self) -> bool:
        return self.gives_back


@pytest.mark.parametrize("gives_back", [True, False])
def test_runs_that_a_worker_hands_back_after_an_outage_are_looked_for_at_once(
    store: Store, queue: MemoryQueue, *, gives_back: bool
) -> None:
    dispatcher = Dispatcher(store, queue)
    Maintenance(store, queue, worker=Holding(set(), gives_back), dispatcher=dispatcher.loop).step()
    assert dispatcher.loop._woken.is_set() is gives_back


@pytest.mark.parametrize(("holds", "state"), [(False, State.RETRYING), (True, State.RUNNING)])
def test_maintenance_ends_what_runs_past_its_lease_unless_it_is_in_hand(
    store: Store, queue: MemoryQueue, clock: Clock, caplog: pytest.LogCaptureFixture, *, holds: bool, state: State
) -> None:
    claim, told = started(store), list[RunEvent]()
    notifier = RunNotifier(subscribers=(told.extend, log_runs))
    maintenance = Maintenance(store, queue, worker=Holding({claim.run.id} if holds else set()), notifier=notifier)
    maintenance.step()
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.RUNNING
    clock.forward(seconds=31)
    maintenance.step()
    run = store.tasks.get(TENANT, claim.task.id).run
    assert (run.state, run.crashes) == (state, int(not holds))
    assert [(event.kind, event.run_id) for event in told] == ([] if holds else [(EventKind.CRASHED, claim.run.id)])
    line = f"crashed: 1 run ({claim.run.id}): the lease expired without a live worker"
    assert (line in caplog.text) is not holds


@pytest.mark.parametrize(
    ("cancels", "outcome", "kind"),
    [(False, "yielded", EventKind.SUSPENDED), (True, "cancelled", EventKind.CANCELLED)],
)
def test_an_attempt_whose_worker_had_announced_its_end_is_reported_as_it_ended_and_not_as_a_crash(
    store: Store,
    queue: MemoryQueue,
    clock: Clock,
    caplog: pytest.LogCaptureFixture,
    *,
    cancels: bool,
    outcome: str,
    kind: EventKind,
) -> None:
    claim, told = started(store), list[RunEvent]()
    store.claims.announce_end([claim.run.id], worker=claim.worker)
    if cancels:
        stop = partial(cancel, now=store.now())
        store.tasks.change(TENANT, claim.task.id, actor="alice", kind=EventKind.CANCEL_REQUESTED, decide=stop)
    clock.forward(seconds=31)
    Maintenance(store, queue, notifier=RunNotifier(subscribers=(told.extend, log_runs))).step()
    [attempt] = store.history.attempts(TENANT, claim.task.id)
    assert (attempt.outcome, attempt.reason) == (outcome, "the worker stopped")
    assert [(event.kind, event.reason) for event in told] == [(kind, "the worker stopped")]
    assert "crashed" not in caplog.text


@pytest.mark.parametrize("restart", [False, True])
def test_a_retry_of_a_second_comes_in_seconds_though_the_clock_was_set_back_by_an_hour(
    store: Store, queue: MemoryQueue, clock: Clock, *, restart: bool
) -> None:
    epoch = store.runners.take_over(pid=1, endpoint="127.0.0.1:1", token="a")
    claim = started(store)
    maintenance = Maintenance(store, queue, epoch=epoch)
    maintenance.step()
    store.claims.settle([settlement(claim, State.RETRYING, wake_at=clock() + timedelta(seconds=1))])
    clock.forward(hours=-1)
    if restart:
        queue = MemoryQueue(lambda: clock().timestamp() * 1000)
        maintenance = Maintenance(store, queue, epoch=epoch)
    maintenance.step()
    Dispatcher(store, queue, epoch=epoch).step()
    clock.forward(seconds=1)
    Dispatcher(store, queue, epoch=epoch).step()
    assert queued(queue) == [claim.run.id]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(("until", "minutes"), [(timedelta(minutes=5), 5), (NOON + timedelta(minutes=5), 65)])
def test_a_wait_is_no_longer_for_a_clock_that_was_set_back_by_an_hour_unless_it_is_for_a_time_of_the_clock(
    store: Store, queue: MemoryQueue, clock: Clock, until: timedelta | datetime, minutes: int, *, restart: bool
) -> None:
    epoch = store.runners.take_over(pid=1, endpoint="127.0.0.1:1", token="a")
    claim = started(store)
    maintenance = Maintenance(store, queue, epoch=epoch, clock=lambda: 7.0)
    maintenance.step()
    store.claims.settle([settle(claim, Wait(until), now=clock(), jitter=0.0)])
    clock.forward(hours=-1)
    if restart:
        queue = MemoryQueue(lambda: clock().timestamp() * 1000)
        maintenance = Maintenance(store, queue, epoch=epoch)
    maintenance.step()
    clock.forward(minutes=minutes, seconds=-2)
    Dispatcher(store, queue, epoch=epoch).step()
    assert queued(queue) == []
    clock.forward(seconds=2)
    Dispatcher(store, queue, epoch=epoch).step()
    assert queued(queue) == [claim.run.id]


def test_a_run_that_was_ready_before_the_clock_was_set_back_starts_at_once_after_a_restart(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    run = added(store).run
    Dispatcher(store, queue).step()
    clock.forward(hours=-1)
    fresh = MemoryQueue(lambda: clock().timestamp() * 1000)
    assert refill(store, fresh).added == 1
    assert queued(fresh) == [run.id]


def test_a_log_names_a_few_runs_and_counts_all() -> None:
    assert runs_words(f"r_{n}" for n in range(7)) == "7 runs (r_0, r_1, r_2, r_3, r_4 and others)"


def test_the_reservation_of_a_dead_attempt_is_free_as_soon_as_it_is_recovered(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
    queue.set_pool("usd", Limits(Kind.BUDGET, 10))
    records = [added(store, NOON + timedelta(seconds=n), needs={"gpu": 1, "usd": 4}) for n in range(2)]
    clock.forward(seconds=1)
    Dispatcher(store, queue).step()
    maintenance = Maintenance(store, queue)
    (grant,) = queue.take("dead", 1, 300_000).grants  # by the queue, it lasts for minutes
    starts = [Start(grant.run_id, grant.token, grant.needs)]
    store.claims.start(starts, worker="dead", epoch=None, lease=timedelta(seconds=30))
    clock.forward(seconds=31)
    maintenance.step()
    pools = queue.stats().pools
    assert (pools["gpu"].used, pools["usd"].spent) == (0, 4)
    (other,) = {record.run.id for record in records} - {grant.run_id}  # both were ready at once
    assert queue.take("alive", 1, 30_000).run_ids == (other,)


def test_a_dispatcher_that_could_not_look_for_a_while_lets_others_renew_first(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    now = [100.0]
    maintenance = Maintenance(store, queue, clock=lambda: now[0])
    maintenance.step()
    claim = started(store)
    for passed, state in [(40, State.RUNNING), (5, State.RETRYING)]:
        now[0] += passed
        clock.forward(seconds=passed)
        maintenance.step()
        assert store.tasks.get(TENANT, claim.task.id).run.state is state


def test_a_dispatcher_without_the_database_lets_others_renew_first_however_short_that_was(
    store: Store, queue: MemoryQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> None:
        raise StoreUnavailable("the database is down")

    maintenance = Maintenance(store, queue)
    claim = started(store)
    clock.forward(seconds=40)
    with monkeypatch.context() as down:
        down.setattr(store.claims, "recover_lapsed", lambda **_: away())
        down.setattr(store.claims, "next_times", away)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                maintenance.step()
    for state in (State.RUNNING, State.RETRYING):
        maintenance.step()
        assert store.tasks.get(TENANT, claim.task.id).run.state is state


def test_the_third_time_that_a_run_is_in_nobodys_hand_fails_it_with_a_message_and_the_next_occurrence(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    record = added(store, repeat="FREQ=HOURLY")
    maintenance = Maintenance(store, queue)
    for _ in range(3):
        restarted(store, record)
        clock.forward(seconds=31)
        maintenance.step()
    after = store.tasks.get(TENANT, record.task.id)
    assert after.last_run is not None
    assert (after.last_run.state, after.run.number) == (State.FAILED, 2)
    assert [message.state for message in store.inbox.unread(TENANT, "alice")] == [State.FAILED]


def test_runs_that_waited_at_a_start_are_not_told_like_runs_that_a_queue_has_lost(
    store: Store, queue: MemoryQueue, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    look = Looks(store, queue, caplog)
    lost = ready(store)
    assert look.said() == ["1 ready runs were waiting when this process started; queued them"]
    clock.forward(seconds=30)
    queue.cancel(lost)
    assert look.said() == ["1 ready runs were missing from the queue; queued them again"]
    assert queued(queue) == [lost]


def test_a_run_on_its_way_into_the_queue_is_queued_and_not_told_as_missing(
    store: Store, queue: MemoryQueue, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    look = Looks(store, queue, caplog)
    assert look.said() == []
    on_its_way = ready(store)
    clock.forward(seconds=9)
    assert look.said() == []
    assert queued(queue) == [on_its_way]


def test_a_run_that_starts_during_the_look_or_comes_back_is_not_told_as_missing(
    store: Store, queue: MemoryQueue, clock: Clock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Looks(store, queue, caplog)
    returned = started(store)
    store.claims.settle([settlement(returned, State.RETRYING, wake_at=clock() + HOUR)])
    look.said()
    clock.forward(hours=1)
    store.claims.make_ready(limit=9)
    gone = ready(store)
    clock.forward(seconds=30)
    read = store.claims.ready

    def read_and_start(**page: Any) -> list[ReadyRun]:
        found = read(**page)
        store.claims.start([Start(gone)], worker="w1", epoch=None, lease=HOUR)
        return found

    monkeypatch.setattr(store.claims, "ready", read_and_start)
    assert look.said() == []


class Looks:
    """Looks of maintenance, half a minute apart."""

    def __init__(self, store: Store, queue: MemoryQueue, caplog: pytest.LogCaptureFixture) -> None:
        self._now = 100.0
        notifier = RunNotifier(observers=(log_notice,))
        self._maintenance = Maintenance(store, queue, notifier=notifier, clock=lambda: self._now)
        self._caplog = caplog

    def said(self) -> list[str]:
        """Return what the next look logs of ready runs."""
        self._caplog.clear()
        self._now += 30
        with self._caplog.at_level(logging.INFO):
            self._maintenance.step()
        return [record.message for record in self._caplog.records if "ready runs" in record.message]


def ready(store: Store) -> str:
    run_id = added(store).run.id
    store.claims.make_ready(limit=9, epoch=None)
    return run_id


def test_maintenance_looks_at_leases_every_3_seconds_and_at_the_queue_every_30(
    store: Store, queue: MemoryQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    looks: list[float] = []

    def look(*_: object, **_options: object) -> Refilled:
        looks.append(now[0])
        return Refilled()

    monkeypatch.setattr("duetime.scheduler.dispatch.maintenance.refill", look)
    maintenance = Maintenance(store, queue, clock=lambda: now[0])
    while now[0] < 131:
        now[0] += maintenance.step() or pytest.fail("it does not sleep")
    assert now[0] == 133
    assert looks == [100, 130]

"""Runs become ready, start and end: each at most once, each with its event."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from duetime.scheduler.errors import IllegalMove, RunnerReplaced
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.records import Change, NewTask
from duetime.scheduler.run_records import Start, Verdict
from duetime.scheduler.store import Store
from duetime.scheduler.store.history import MAX_TRACEBACKS
from duetime.scheduler.store.sql.locks import exactly
from duetime.scheduler.task import DeliveryState, State, Tier
from duetime.scheduler.views import TaskRecord

from tests.builders import (
    LEASE,
    NOON,
    TENANT,
    Clock,
    a_run,
    a_task,
    added,
    delivery,
    message,
    restarted,
    settlement,
    started,
)
from tests.contracts.store.statement_log import statements_of


def events_of(store: Store, task_id: str) -> list[Event]:
    return list(reversed(store.history.events(TENANT, EventFilter(task_id=task_id), limit=100).events))


def kinds(store: Store, task_id: str) -> list[str]:
    return [event.kind.value for event in events_of(store, task_id)]


def test_a_run_is_made_ready_when_it_is_due_and_not_before(store: Store, clock: Clock) -> None:
    record = added(store, NOON + timedelta(minutes=1))
    assert store.claims.next_times().first() == NOON + timedelta(minutes=1)
    assert store.claims.make_ready(limit=16) == []
    clock.forward(minutes=1)
    [ready] = store.claims.make_ready(limit=16)
    assert (ready.task_id, ready.first_ready_at, ready.action) == (record.task.id, clock.at, "reminder")
    assert store.claims.make_ready(limit=16) == []
    assert store.claims.next_times().first() is None
    assert store.claims.ready(limit=10) == [ready]
    assert store.claims.ready(limit=10, after=ready.run_id) == []


@pytest.mark.parametrize("priority", [Tier.CRITICAL, Tier.HIGH])
def test_of_more_due_runs_than_a_batch_takes_urgent_ones_are_made_ready_first(
    store: Store, clock: Clock, priority: Tier
) -> None:
    others = [added(store, NOON, priority=Tier.BACKGROUND).run.id for _ in range(3)]
    clock.forward(seconds=1)
    others += [added(store, clock(), priority=Tier.NORMAL).run.id for _ in range(2)]
    clock.forward(seconds=1)
    added(store, clock(), priority=priority, paused=True)
    added(store, clock() + timedelta(minutes=1), priority=priority)
    urgent = added(store, clock(), priority=priority).run.id
    batches = [[run.run_id for run in store.claims.make_ready(limit=2)] for _ in range(4)]
    assert batches[0][0] == urgent
    assert [len(batch) for batch in batches] == [2, 2, 2, 0]
    assert sorted(run_id for batch in batches for run_id in batch) == sorted([urgent, *others])


def test_a_backlog_is_searched_for_urgent_runs_ten_times_a_second_at_most(store: Store, clock: Clock) -> None:
    for _ in range(6):
        added(store, NOON, priority=Tier.BACKGROUND)
    clock.forward(seconds=1)
    with statements_of(store) as first:
        store.claims.make_ready(limit=2)
    urgent = added(store, clock(), priority=Tier.CRITICAL).run.id
    with statements_of(store) as second:
        batch = store.claims.make_ready(limit=2)
    assert len(first) == len(second) + 1
    assert urgent not in [run.run_id for run in batch]
    clock.forward(seconds=0.1)
    assert next(run.run_id for run in store.claims.make_ready(limit=2)) == urgent


def test_a_run_that_is_made_ready_early_keeps_its_time(store: Store, clock: Clock) -> None:
    soon, sooner = (added(store, NOON + timedelta(seconds=seconds)) for seconds in (0.9, 0.4))
    added(store, NOON + timedelta(seconds=2))
    ready = store.claims.make_ready(limit=16, ahead=timedelta(seconds=1))
    assert [(run.run_id, run.first_ready_at) for run in ready] == [
        (record.run.id, record.run.scheduled_for) for record in (sooner, soon)
    ]
    clock.forward(seconds=0.5)
    assert {run.run_id: run.first_ready_at for run in store.claims.ready(limit=16)} == {
        record.run.id: record.run.scheduled_for for record in (sooner, soon)
    }
    assert kinds(store, soon.task.id) == ["created", "ready"]


def test_a_run_that_has_started_before_is_never_made_ready_early(store: Store, clock: Clock) -> None:
    claim = started(store)
    again = clock.at + timedelta(seconds=1)
    store.claims.settle([settlement(claim, State.RETRYING, wake_at=again)])
    assert store.claims.make_ready(limit=16, ahead=timedelta(hours=1)) == []
    clock.forward(seconds=1)
    [ready] = store.claims.make_ready(limit=16, ahead=timedelta(hours=1))
    assert (ready.run_id, ready.first_ready_at) == (claim.run.id, NOON)


def test_a_task_may_be_stored_with_a_run_that_is_ready(store: Store, clock: Clock) -> None:
    task, run = a_task()
    at_once = replace(run, state=State.READY, wake_at=None, first_ready_at=NOON)
    later, its_run = a_task()
    store.tasks.add_many([NewTask(task, at_once, "alice"), NewTask(later, its_run, "alice")])
    assert store.tasks.get(TENANT, task.id).run == at_once
    assert kinds(store, task.id) == ["created", "ready"]
    moves = [(event.from_state, event.to_state) for event in events_of(store, task.id)]
    assert moves == [(None, State.SCHEDULED), (State.SCHEDULED, State.READY)]
    assert kinds(store, later.id) == ["created"]
    assert [found.run_id for found in store.claims.ready(limit=9)] == [run.id]
    [claim] = store.claims.start([Start(run.id)], worker="w1", epoch=None, lease=LEASE)
    assert (claim.run.id, claim.run.state) == (run.id, State.RUNNING)


def test_a_run_goes_from_scheduled_to_succeeded_with_one_event_for_each_move(store: Store, clock: Clock) -> None:
    claim = started(store)
    assert (claim.run.state, claim.run.attempt, claim.worker) == (State.RUNNING, 1, "w1")
    told = message(claim)
    ended = settlement(claim, summary="called", result={"ok": True}, inbox=told, deliveries=(delivery(claim),))
    clock.forward(seconds=3)
    assert store.claims.settle([ended]) == [Verdict.SETTLED]
    record = store.tasks.get(TENANT, claim.task.id)
    assert (record.run.state, record.run.ended_at, record.run.result) == (State.SUCCEEDED, clock.at, {"ok": True})
    assert record.last_run == record.run
    assert [item.channel for item in record.deliveries] == ["desktop"]
    assert kinds(store, claim.task.id) == ["created", "ready", "started", "succeeded"]
    assert store.inbox.unread(TENANT, "alice") == [told]
    [attempt] = store.history.attempts(TENANT, claim.task.id)
    assert (attempt.number, attempt.outcome, attempt.ended_at) == (1, "done", clock.at)


def test_a_run_settles_once(store: Store) -> None:
    claim = started(store)
    ended = settlement(claim)
    assert store.claims.settle([ended, ended]) == [Verdict.SETTLED, Verdict.FENCED]
    assert store.claims.settle([ended]) == [Verdict.FENCED]
    assert kinds(store, claim.task.id).count("succeeded") == 1


@pytest.mark.parametrize("knows_the_task", [True, False])
@pytest.mark.parametrize("to", [State.SUCCEEDED, State.FAILED, State.RETRYING])
def test_an_end_that_an_earlier_call_may_have_stored_is_settled_and_written_once(
    store: Store, to: State, *, knows_the_task: bool
) -> None:
    claims = [started(store), started(store)]
    ended, other = (settlement(claim, to, wake_at=NOON if to is State.RETRYING else None) for claim in claims)
    if not knows_the_task:  # then it is settled step by step
        ended, other = replace(ended, claim=None), replace(other, claim=None)
    assert store.claims.settle([ended]) == [Verdict.SETTLED]
    stored = store.tasks.get(TENANT, claims[0].task.id)
    assert store.claims.settle([ended, other], again=True) == [Verdict.SETTLED] * 2
    assert store.tasks.get(TENANT, claims[0].task.id) == stored
    assert store.claims.settle([settlement(claims[0], State.CANCELLED)], again=True) == [Verdict.FENCED]
    later = replace(settlement(claims[0], to), attempt=2)
    assert store.claims.settle([later], again=True) == [Verdict.FENCED]


def test_an_older_attempt_writes_nothing(store: Store) -> None:
    first = started(store)
    retry = settlement(first, State.RETRYING, wake_at=NOON, failures=1, reason="busy")
    assert store.claims.settle([retry]) == [Verdict.SETTLED]
    second = restarted(store, store.tasks.get(TENANT, first.task.id))
    assert second.run.attempt == 2
    assert store.claims.settle([settlement(first)]) == [Verdict.FENCED]
    assert not store.claims.progress(first.run.id, 1, 0.5)
    assert not store.claims.checkpoint(first.run.id, 1, {"page": 3})
    assert store.claims.checkpoint(first.run.id, 2, {"page": 4})
    assert store.tasks.get(TENANT, first.task.id).run.checkpoint == {"page": 4}


def test_a_settlement_that_decides_the_next_occurrence_is_stale_after_a_change(store: Store) -> None:
    claim = started(store, repeat="FREQ=DAILY")
    following = a_run(claim.task, NOON + timedelta(days=1), number=2)
    ended = settlement(claim, next_run=following)
    assert store.claims.settle([settlement(claim, task_revision=7)]) == [Verdict.STALE]
    assert store.claims.settle([settlement(claim, task_revision=7, next_run=following)]) == [Verdict.STALE]
    assert store.claims.settle([ended]) == [Verdict.SETTLED]
    record = store.tasks.get(TENANT, claim.task.id)
    assert (record.run.id, record.run.number) == (following.id, 2)
    assert record.last_run is not None
    assert record.last_run.state is State.SUCCEEDED
    assert kinds(store, claim.task.id)[-2:] == ["succeeded", "next_occurrence"]
    assert store.claims.next_times().first() == NOON + timedelta(days=1)


def test_an_illegal_end_rolls_everything_back(store: Store) -> None:
    claim, other = started(store), started(store)
    wrong = settlement(claim, task_revision=1)
    object.__setattr__(wrong, "to", State.READY)
    with pytest.raises(IllegalMove):
        store.claims.settle([settlement(other), wrong])
    assert store.tasks.get(TENANT, other.task.id).run.state is State.RUNNING


def test_claims_of_an_older_runner_are_refused(store: Store) -> None:
    added(store)
    old = store.runners.take_over(pid=1, endpoint="a", token="s")
    new = store.runners.take_over(pid=2, endpoint="b", token="t")
    assert new == old + 1
    with pytest.raises(RunnerReplaced):
        store.claims.make_ready(limit=1, epoch=old)
    [ready] = store.claims.make_ready(limit=1, epoch=new)
    with pytest.raises(RunnerReplaced):
        store.claims.start([Start(ready.run_id)], worker="w", epoch=old, lease=LEASE)
    assert len(store.claims.start([Start(ready.run_id)], worker="w", epoch=new, lease=LEASE)) == 1
    current = store.runners.current()
    assert current is not None
    assert (current.epoch, current.pid, current.endpoint, current.token) == (new, 2, "b", "t")


def test_only_what_older_runners_left_running_is_recovered(store: Store) -> None:
    old = store.runners.take_over(pid=1, endpoint="", token="")
    left = restarted(store, added(store), epoch=old)
    new = store.runners.take_over(pid=2, endpoint="", token="")
    mine = restarted(store, added(store), epoch=new)
    with pytest.raises(RunnerReplaced):
        store.claims.recover(epoch=old)
    assert store.claims.recover(epoch=new) == 1
    assert store.tasks.get(TENANT, left.task.id).run.state is State.RETRYING
    assert store.tasks.get(TENANT, mine.task.id).run.state is State.RUNNING
    assert store.claims.settle([settlement(left), settlement(mine)]) == [Verdict.FENCED, Verdict.SETTLED]


def test_an_attempt_whose_lease_has_passed_does_not_say_that_its_worker_died_for_sure(
    store: Store, clock: Clock
) -> None:
    claim = started(store, worker="w-7")
    clock.forward(hours=1)
    store.claims.recover_lapsed(epoch=None, held=(), before=clock())
    [attempt] = store.history.attempts(TENANT, claim.task.id)
    assert attempt.reason == (
        "its worker process (w-7) died or was paused longer than its lease, during the attempt (crash 1 of 3)"
    )


def test_a_crashed_run_that_was_to_be_cancelled_is_cancelled(store: Store) -> None:
    claim = restarted(store, added(store), epoch=store.runners.take_over(pid=1, endpoint="", token=""))

    def ask(it: TaskRecord) -> Change:
        return Change(it.task, replace(it.run, cancel_requested=True))

    store.tasks.change(TENANT, claim.task.id, actor="a", kind=EventKind.CANCEL_REQUESTED, decide=ask)
    assert store.claims.recover(epoch=store.runners.take_over(pid=2, endpoint="", token="")) == 1
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.CANCELLED


def test_a_run_that_shall_be_cancelled_does_not_go_on(store: Store) -> None:
    claim = started(store)

    def ask(it: TaskRecord) -> Change:
        return Change(it.task, replace(it.run, cancel_requested=True))

    task = store.tasks.change(TENANT, claim.task.id, actor="a", kind=EventKind.CANCEL_REQUESTED, decide=ask).task
    retry = settlement(claim, State.RETRYING, wake_at=NOON)
    assert store.claims.settle([retry]) == [Verdict.STALE]
    assert store.claims.settle([replace(retry, task_revision=task.revision)]) == [Verdict.SETTLED]
    assert store.tasks.get(TENANT, task.id).run.state is State.CANCELLED
    assert store.claims.next_times().first() is None


def test_a_failed_attempt_keeps_its_traceback_whatever_way_it_is_stored(store: Store) -> None:
    """A claim settles by one statement on PostgreSQL, a settlement without one by several."""
    one, two, good = started(store), started(store), started(store)
    told = [
        settlement(one, State.RETRYING, wake_at=NOON, error="boom", traceback="Traceback one"),
        replace(settlement(two, State.FAILED, error="boom", traceback="Traceback two\u2028\x00"), claim=None),
        settlement(good),
    ]
    assert store.claims.settle(told) == [Verdict.SETTLED] * 3
    found = [store.history.attempts(TENANT, claim.task.id)[0].traceback for claim in (one, two, good)]
    assert found == ["Traceback one", "Traceback two\u2028\ufffd", None]
    newest = store.history.failed_attempt(TENANT, [one.run.id, good.run.id])
    assert newest is not None
    assert (newest.run_id, newest.outcome, newest.traceback) == (one.run.id, "retry", "Traceback one")
    assert store.history.failed_attempt(TENANT, [good.run.id]) is None


def test_a_list_of_attempts_has_the_newest_tracebacks(store: Store, clock: Clock) -> None:
    record = added(store)
    for number in range(1, MAX_TRACEBACKS + 3):
        clock.forward(minutes=1)
        claim = restarted(store, record)
        store.claims.settle([settlement(claim, State.RETRYING, wake_at=NOON, error="boom", traceback=str(number))])
    found = [attempt.traceback for attempt in store.history.attempts(TENANT, record.task.id)]
    assert found == [None, None, *(str(number) for number in range(3, MAX_TRACEBACKS + 3))]
    newest = store.history.failed_attempt(TENANT, [record.run.id])
    assert newest is not None
    assert newest.traceback == str(MAX_TRACEBACKS + 2)


def test_renewing_names_the_runs_to_stop(store: Store) -> None:
    mine, theirs, done = started(store), started(store, worker="w2"), started(store)
    store.claims.settle([settlement(done)])
    every = [claim.run.id for claim in (mine, theirs, done)]
    assert store.claims.unwanted(every, worker="w1") == {theirs.run.id, done.run.id}
    assert store.claims.renew(every, worker="w1", lease=LEASE) == {theirs.run.id, done.run.id}
    assert store.claims.renew([], worker="w1", lease=LEASE) == store.claims.unwanted([], worker="w1") == set()


def test_a_crashed_run_is_tried_again_and_the_third_crash_makes_a_dead_letter(store: Store) -> None:
    record = added(store)
    for crash in (1, 2, 3):
        epoch = store.runners.take_over(pid=crash, endpoint="", token="")
        claim = restarted(store, record, epoch=epoch)
        assert claim.run.attempt == crash
        newer = store.runners.take_over(pid=crash + 10, endpoint="", token="")
        assert store.claims.recover(epoch=newer) == 1
        assert store.claims.recover(epoch=newer) == 0
    run = store.tasks.get(TENANT, record.task.id).run
    assert (run.state, run.crashes) == (State.FAILED, 3)
    [letter], cursor = store.dead_letters.page(TENANT, limit=10)
    assert cursor is None
    assert letter.payload == record.task.payload
    assert [attempt.outcome for attempt in letter.attempts] == ["crashed"] * 3
    assert kinds(store, record.task.id).count(EventKind.CRASHED) == 3


def test_an_attempt_whose_worker_announced_its_end_is_handed_back_and_not_crashed(store: Store) -> None:
    record = added(store)
    for end in (1, 2, 3, 4):
        claim = restarted(store, record, epoch=store.runners.take_over(pid=end, endpoint="", token=""))
        store.claims.announce_end([claim.run.id], worker="another")
        store.claims.announce_end([claim.run.id], worker=claim.worker)
        assert store.claims.recover(epoch=store.runners.take_over(pid=end + 10, endpoint="", token="")) == 1
    run = store.tasks.get(TENANT, record.task.id).run
    assert (run.state, run.crashes, run.failures) == (State.SUSPENDED, 0, 0)
    assert [attempt.outcome for attempt in store.history.attempts(TENANT, record.task.id)] == ["yielded"] * 4
    assert EventKind.CRASHED not in kinds(store, record.task.id)


def test_the_announcement_of_an_end_by_another_worker_changes_nothing(store: Store) -> None:
    claim = restarted(store, added(store), epoch=store.runners.take_over(pid=1, endpoint="", token=""))
    store.claims.announce_end([claim.run.id], worker="another")
    store.claims.announce_end([], worker=claim.worker)
    assert store.claims.recover(epoch=store.runners.take_over(pid=2, endpoint="", token="")) == 1
    run = store.tasks.get(TENANT, claim.task.id).run
    assert (run.state, run.crashes) == (State.RETRYING, 1)


def test_a_run_that_ends_after_its_worker_announced_its_end_ended_as_it_did(store: Store) -> None:
    claim = started(store)
    store.claims.announce_end([claim.run.id], worker=claim.worker)
    assert store.claims.settle([settlement(claim)]) == [Verdict.SETTLED]
    [attempt] = store.history.attempts(TENANT, claim.task.id)
    assert (attempt.outcome, attempt.reason) == ("done", None)


def test_a_run_whose_lease_has_passed_and_that_nobody_holds_counts_as_crashed(store: Store, clock: Clock) -> None:
    epoch = store.runners.take_over(pid=1, endpoint="", token="")
    lost = [restarted(store, added(store), epoch=epoch), started(store)]
    held = restarted(store, added(store), epoch=epoch)
    clock.forward(seconds=20)
    alive, fresh = started(store), restarted(store, added(store), epoch=epoch)
    store.claims.renew([alive.run.id], worker="w1", lease=LEASE)

    def recovered() -> int:
        return len(store.claims.recover_lapsed(epoch=epoch, held={held.run.id}, before=clock.at))

    clock.forward(seconds=10)
    assert recovered() == 0
    clock.forward(seconds=1)
    assert (recovered(), recovered()) == (2, 0)
    for claim in lost:
        run = store.tasks.get(TENANT, claim.task.id).run
        assert (run.state, run.crashes, run.failures, run.wake_at) == (State.RETRYING, 1, 0, clock.at)
        assert kinds(store, claim.task.id)[-1] == "crashed"
    others = [held, alive, fresh]
    assert [store.tasks.get(TENANT, claim.task.id).run.state for claim in others] == [State.RUNNING] * 3
    verdicts = store.claims.settle([settlement(claim) for claim in [*lost, *others]])
    assert verdicts == [Verdict.FENCED] * 2 + [Verdict.SETTLED] * 3


def test_a_run_claimed_after_the_look_at_held_runs_is_left_alone(store: Store, clock: Clock) -> None:
    before = clock.at
    claim = started(store)
    clock.forward(hours=8)  # the machine slept before the next line
    assert not store.claims.recover_lapsed(epoch=None, held=(), before=before)
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.RUNNING


def test_a_runner_that_was_replaced_ends_no_attempt_whose_lease_has_passed(store: Store, clock: Clock) -> None:
    old = store.runners.take_over(pid=1, endpoint="", token="")
    claim = restarted(store, added(store), epoch=store.runners.take_over(pid=2, endpoint="", token=""))
    clock.forward(minutes=1)
    with pytest.raises(RunnerReplaced):
        store.claims.recover_lapsed(epoch=old, held=(), before=clock.at)
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.RUNNING


def test_an_update_that_misses_a_row_undoes_its_transaction() -> None:
    exactly(3, 3)
    with pytest.raises(IllegalMove, match="another transaction moved them first"):
        exactly(3, 2)


def test_after_the_clock_was_set_back_a_retry_waits_from_now_on_as_long_as_it_should(
    store: Store, clock: Clock
) -> None:
    claims = [started(store), started(store)]
    clock.forward(seconds=10)
    again = clock() + timedelta(hours=2)
    store.claims.settle([settlement(each, State.RETRYING, wake_at=again) for each in claims])
    assert store.claims.restart_delays() == []
    clock.forward(hours=-1)
    assert sorted(store.claims.restart_delays()) == sorted(each.run.id for each in claims)
    for claim in claims:
        run = store.tasks.get(TENANT, claim.task.id).run
        assert (run.state, run.wake_at) == (State.RETRYING, clock() + timedelta(hours=2))
        [attempt] = store.history.attempts(TENANT, claim.task.id)
        assert attempt.started_at == attempt.ended_at == clock()
    assert store.claims.restart_delays() == []


def test_a_delivery_that_is_dropped_is_due_no_more_and_one_that_has_ended_stays(store: Store) -> None:
    claims = [started(store), started(store)]
    told = [delivery(claim, next_at=NOON) for claim in claims]
    ends = [
        settlement(claim, inbox=message(claim), deliveries=(each,)) for claim, each in zip(claims, told, strict=True)
    ]
    store.claims.settle(ends)
    assert store.deliveries.settle_delivered([told[1].id], 0)
    store.deliveries.drop([each.id for each in told])
    assert store.deliveries.due(limit=9) == []
    kept = [store.tasks.get(TENANT, claim.task.id).deliveries for claim in claims]
    assert [[each.state for each in of_task] for of_task in kept] == [[], [DeliveryState.DELIVERED]]


@pytest.mark.parametrize("known", [False, True])
def test_after_the_clock_was_set_back_a_wait_and_a_delivery_last_no_longer(
    store: Store, clock: Clock, *, known: bool
) -> None:
    waiting, told = started(store), started(store)
    clock.forward(seconds=10)
    soon = clock() + timedelta(minutes=5)
    to_tell = delivery(told, next_at=clock())
    store.claims.settle(
        [
            settlement(waiting, State.SUSPENDED, wake_at=soon, waits=timedelta(minutes=5)),
            settlement(told, inbox=message(told), deliveries=(to_tell,)),
        ]
    )
    assert store.deliveries.settle_failed([to_tell.id], 0, "busy", next_at=soon)
    clock.forward(hours=-1)
    assert store.claims.restart_delays(timedelta(hours=1) if known else None) == [waiting.run.id]
    assert store.tasks.get(TENANT, waiting.task.id).run.wake_at == clock() + timedelta(minutes=5)
    assert store.deliveries.next_wake() == clock() + timedelta(minutes=5)
    assert store.claims.restart_delays() == []


def test_a_delay_of_a_long_time_ago_ends_as_much_earlier_as_the_clock_was_set_back(store: Store, clock: Clock) -> None:
    waiting = started(store)
    wake_at = clock() + timedelta(hours=9)
    store.claims.settle([settlement(waiting, State.SUSPENDED, wake_at=wake_at, waits=timedelta(hours=9))])
    clock.forward(hours=5)
    clock.forward(hours=-1)
    assert store.claims.restart_delays() == []
    assert store.claims.restart_delays(timedelta(hours=1)) == [waiting.run.id]
    assert store.tasks.get(TENANT, waiting.task.id).run.wake_at == clock() + timedelta(hours=4)


def test_after_the_clock_was_set_back_the_calendar_waits_for_the_clock(store: Store, clock: Clock) -> None:
    record, running = added(store, NOON + timedelta(minutes=5)), started(store)
    waiting = started(store)
    store.claims.settle([settlement(waiting, State.SUSPENDED, wake_at=NOON + timedelta(hours=1))])
    clock.forward(hours=-1)
    assert store.claims.restart_delays() == []
    assert store.claims.restart_delays(timedelta(hours=1)) == []
    assert store.tasks.get(TENANT, record.task.id).run.wake_at == NOON + timedelta(minutes=5)
    assert store.tasks.get(TENANT, waiting.task.id).run.wake_at == NOON + timedelta(hours=1)
    assert store.tasks.get(TENANT, running.task.id).run.state is State.RUNNING

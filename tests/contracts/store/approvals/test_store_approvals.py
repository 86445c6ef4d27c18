"""Approvals: a run waits for a yes, which is asked for once, answered once, and decided by its default at the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.chain.dependency import Dependency
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.outcomes import Done, Wait
from duetime.scheduler.records import Change
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.settlement import settle, with_consequences
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalAnswer, State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval, as_answer

from tests.builders import LEASE, NOON, TENANT, Clock, a_task, added, restarted, settlement, with_deadline

APPROVE, REJECT = ApprovalAnswer
HOUR = timedelta(hours=1)


def asking(
    store: Store, *after: TaskRecord, ends_in: timedelta | None = HOUR, default: ApprovalAnswer = REJECT, **values: Any
) -> TaskRecord:
    task, run = a_task(**values)
    return asking_for(store, task, run, *after, ends_in=ends_in, default=default)


def asking_for(
    store: Store,
    task: Any,
    run: Any,
    *after: TaskRecord,
    ends_in: timedelta | None = HOUR,
    default: ApprovalAnswer = REJECT,
) -> TaskRecord:
    ends_at = NOON + ends_in if ends_in else None
    approval = Approval(run.id, 0, "Pay 90 EUR?", default, NOON, ends_at)
    waiting = replace(run, state=State.WAITING, wake_at=None)
    links = [Dependency(each.task.id) for each in after]
    return store.tasks.add(task, waiting, actor="alice", after=links, approval=approval).record


def answer(store: Store, record: TaskRecord, given: ApprovalAnswer, actor: str = "bob", **more: Any) -> TaskRecord:
    return store.approvals.answer(TENANT, record.task.id, given, actor=actor, **more).record


def state(store: Store, record: TaskRecord) -> State:
    return store.tasks.get(TENANT, record.task.id).run.state


def told(store: Store, record: TaskRecord) -> list[Event]:
    page = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=20, cursor=None)
    return list(page.events)


def inbox(store: Store) -> list[tuple[State, str]]:
    return [(message.state, message.text) for message in store.inbox.unread(TENANT, "alice")]


def change(store: Store, record: TaskRecord, kind: EventKind, decide: Any) -> TaskRecord:
    return store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=decide)


def test_a_run_waits_for_a_yes_and_goes_in_the_transaction_that_stores_it(store: Store, clock: Clock) -> None:
    freed: list[str] = []
    store.commits.listen(freed.extend)
    record = asking(store)
    assert (record.run.state, store.claims.next_times().wake_at) == (State.WAITING, None)
    assert inbox(store) == [(State.WAITING, "Pay 90 EUR?")]
    assert [sent.channel for sent, _ in store.deliveries.due(limit=9)] == ["desktop"], "asked once"

    clock.forward(minutes=5)
    found = answer(store, record, APPROVE, reason="it is due")

    assert (found.run.state, found.run.wake_at, freed) == (State.SCHEDULED, clock(), [record.task.id])
    unblocked, approved, created = told(store, record)
    assert (created.to_state, approved.kind, approved.actor, approved.reason) == (
        *(State.WAITING, EventKind.APPROVED),
        *("bob", "it is due"),
    )
    assert (unblocked.kind, unblocked.reason) == (EventKind.UNBLOCKED, "bob approved it")
    assert (inbox(store), store.deliveries.due(limit=9)) == ([], []), "nothing is asked any more"
    store.claims.settle([settlement(restarted(store, record))])


def test_a_no_cancels_the_run_and_all_that_comes_after_it(store: Store) -> None:
    record = asking(store)
    follower = store.tasks.add(
        *_waiting(*a_task(title="Next")), actor="alice", after=[Dependency(record.task.id)]
    ).record
    found = answer(store, record, REJECT, reason="too much")
    rejected = told(store, record)[0]
    assert (found.run.state, found.run.error) == (State.CANCELLED, "bob rejected it: too much")
    assert (rejected.kind, rejected.actor, rejected.to_state) == (EventKind.REJECTED, "bob", State.CANCELLED)
    assert (state(store, follower), inbox(store)) == (State.CANCELLED, [])


def _waiting(task: Any, run: Any) -> tuple[Any, Any]:
    return task, replace(run, state=State.WAITING, wake_at=None)


@pytest.mark.parametrize(("first", "second"), [(APPROVE, REJECT), (REJECT, APPROVE)])
def test_an_answer_holds_its_repeat_is_harmless_and_another_one_is_refused(
    store: Store, first: ApprovalAnswer, second: ApprovalAnswer
) -> None:
    record = asking(store)
    stands = answer(store, record, first)
    events = told(store, record)
    assert answer(store, record, first, "carol") == stands
    with pytest.raises(Refused, match=f"bob {first.value.removesuffix('e')}ed it already"):
        answer(store, record, second, "carol")
    assert told(store, record) == events


def test_nothing_is_answered_that_was_not_asked(store: Store) -> None:
    for record in (added(store), change(store, asking(store), EventKind.CANCELLED, partial(changes.cancel, now=NOON))):
        with pytest.raises(Refused, match="waiting for approval"):
            answer(store, record, APPROVE)
    assert inbox(store) == []


@pytest.mark.parametrize(("default", "follows"), [(APPROVE, State.SCHEDULED), (REJECT, State.CANCELLED)])
def test_the_default_decides_when_nobody_has(
    store: Store, clock: Clock, default: ApprovalAnswer, follows: State
) -> None:
    record = asking(store, default=default, timezone="UTC")
    clock.forward(minutes=59)
    assert store.approvals.expire(limit=9) == []
    clock.forward(minutes=1)
    assert store.approvals.expire(limit=9) == [record.task.id]
    assert store.approvals.expire(limit=9) == []
    decided = next(event for event in told(store, record) if event.kind in (EventKind.APPROVED, EventKind.REJECTED))
    assert state(store, record) is follows
    assert (decided.actor, decided.reason) == ("duetime", "nobody answered until Tue 24 Nov 2026 13:00 UTC")
    lost = [(State.CANCELLED, f"it did not run: {decided.reason}")] if default is REJECT else []
    assert inbox(store) == lost


def test_a_question_without_an_end_stays(store: Store, clock: Clock) -> None:
    record = asking(store, ends_in=None)
    clock.forward(days=400)
    assert store.approvals.expire(limit=9) == []
    assert answer(store, record, APPROVE).run.state is State.SCHEDULED


@pytest.mark.parametrize("yes_first", [True, False])
def test_every_wait_has_to_be_over(store: Store, yes_first: bool) -> None:
    first = added(store)
    record = asking(store, first)
    steps: list[Callable[[], object]] = [
        lambda: answer(store, record, APPROVE),
        lambda: store.claims.settle([settlement(restarted(store, first))]),
    ]
    one, other = steps if yes_first else reversed(steps)
    one()
    assert state(store, record) is State.WAITING
    assert store.dependencies.repair(limit=9) == 0
    other()
    assert state(store, record) is State.SCHEDULED
    expected = f"{first.task.id} (Call John) succeeded" if yes_first else "bob approved it"
    assert told(store, record)[0].reason == expected


def test_its_own_time_is_the_earliest_one(store: Store) -> None:
    record = asking(store, scheduled_for=NOON + 3 * HOUR)
    assert answer(store, record, APPROVE).run.wake_at == NOON + 3 * HOUR


def test_nothing_goes_around_an_approval(store: Store, clock: Clock) -> None:
    record = asking(store)
    with pytest.raises(Refused, match="needs an approval first"):
        change(store, record, EventKind.RUN_NOW, partial(changes.run_now, now=clock()))
    later = change(store, record, EventKind.RESCHEDULED, partial(_moved, now=clock()))
    assert later.run.state is State.WAITING
    changed = change(store, record, EventKind.RESCHEDULED, partial(_with_payload, payload={"message": "Pay 95"}))
    assert changed.task.payload == {"message": "Pay 95"}
    answer(store, record, APPROVE)
    with pytest.raises(Refused, match="approved by bob with its current payload"):
        change(store, record, EventKind.RESCHEDULED, partial(_with_payload, payload={"message": "Pay 9000"}))


def _moved(record: TaskRecord, now: Any) -> Any:
    return changes.move(record, now + HOUR, now, EventKind.RESCHEDULED)


def _with_payload(record: TaskRecord, payload: Any) -> Any:
    return Change(replace(record.task, payload=payload), record.run)


def test_an_undone_no_asks_again_and_an_undone_cancel_keeps_the_yes(store: Store, clock: Clock) -> None:
    undo = partial(changes.undo_cancel, token=None)
    record = asking(store)
    answer(store, record, REJECT)
    again = change(store, record, EventKind.CANCEL_UNDONE, lambda found: undo(found, clock()))
    assert (again.run.state, inbox(store)) == (State.WAITING, [(State.WAITING, "Pay 90 EUR?")])
    assert answer(store, record, APPROVE).run.state is State.SCHEDULED
    change(store, record, EventKind.CANCELLED, partial(changes.cancel, now=clock()))
    back = change(store, record, EventKind.CANCEL_UNDONE, lambda found: undo(found, clock()))
    assert (back.run.state, inbox(store)) == (State.SCHEDULED, [])


def test_a_default_no_that_is_undone_asks_for_as_long_as_before(store: Store, clock: Clock) -> None:
    record = asking(store)
    clock.forward(hours=1)
    store.approvals.expire(limit=9)
    clock.forward(seconds=10)
    again = change(store, record, EventKind.CANCEL_UNDONE, lambda found: changes.undo_cancel(found, clock(), None))
    [approval] = store.approvals.open_of(TENANT, [again.run.id]).values()
    assert approval.ends_at == clock() + HOUR


def test_a_task_that_has_run_asks_again_before_its_next_run(store: Store, clock: Clock) -> None:
    record = asking(store)
    answer(store, record, APPROVE)
    store.claims.settle([settlement(restarted(store, record), State.FAILED)])
    clock.forward(minutes=50)
    again = change(store, record, EventKind.RUN_NOW, partial(changes.run_now, now=clock()))
    assert (again.run.state, again.run.generation) == (State.WAITING, 2)
    assert store.approvals.open_of(TENANT, [again.run.id])[again.run.id].ends_at == clock() + HOUR
    assert answer(store, record, APPROVE).run.state is State.SCHEDULED


@pytest.mark.parametrize("kind", [EventKind.RUN_NOW, EventKind.RESCHEDULED])
def test_a_task_that_ended_with_another_and_is_wanted_again_asks_and_runs_in_spite_of_that(
    store: Store, clock: Clock, kind: EventKind
) -> None:
    failing = [added(store), added(store)]
    record = asking(store, *failing, ends_in=None)
    for each in failing:
        store.claims.settle([settlement(restarted(store, each), State.FAILED)])
    assert state(store, record) is State.FAILED

    clock.forward(minutes=50)
    again = change(store, record, kind, partial(changes.move, to=clock(), now=clock(), kind=kind))
    assert store.approvals.open_of(TENANT, [again.run.id])[again.run.id].asked_at == clock()
    asked = [state for state, _ in inbox(store)].count(State.WAITING)
    assert (again.run.state, asked) == (State.WAITING, 1), "it has not ended once more"
    assert answer(store, record, APPROVE).run.state is State.SCHEDULED


def test_the_undone_cancel_of_a_run_that_was_wanted_again_asks_again(store: Store, clock: Clock) -> None:
    failing = added(store)
    record = asking(store, failing, ends_in=None)
    store.claims.settle([settlement(restarted(store, failing), State.FAILED)])
    change(store, record, EventKind.RUN_NOW, partial(changes.run_now, now=clock()))
    change(store, record, EventKind.CANCELLED, partial(changes.cancel, now=clock()))
    change(store, record, EventKind.CANCEL_UNDONE, partial(changes.undo_cancel, now=clock(), token=None))
    assert state(store, record) is State.WAITING
    assert answer(store, record, APPROVE).run.state is State.SCHEDULED


def test_an_end_that_comes_later_decides_about_a_run_that_is_wanted_again(store: Store, clock: Clock) -> None:
    failing, slow = added(store), added(store)
    record = asking(store, failing, slow, ends_in=None)
    store.claims.settle([settlement(restarted(store, failing), State.FAILED)])
    change(store, record, EventKind.RUN_NOW, partial(changes.run_now, now=clock()))
    clock.forward(seconds=1)
    store.claims.settle([settlement(restarted(store, slow), State.FAILED)])
    assert state(store, record) is State.FAILED


def test_a_run_that_expires_while_it_waits_is_not_asked_for_any_more(store: Store, clock: Clock) -> None:
    task, run = with_deadline(*a_task(), after=timedelta(minutes=5))
    record = asking_for(store, task, run)
    clock.forward(minutes=6)
    [_] = store.claims.expire(limit=9, conclude=partial(with_consequences, now=clock()))
    [(how, _)] = inbox(store)
    assert (how, state(store, record)) == (State.EXPIRED, State.EXPIRED)
    with pytest.raises(Refused, match="is no longer waiting for approval"):
        answer(store, record, APPROVE)
    again = change(store, record, EventKind.RUN_NOW, partial(changes.run_now, now=clock()))
    asked = store.approvals.open_of(TENANT, [again.run.id])[again.run.id]
    assert (asked.asked_at, asked.ends_at) == (clock(), clock() + HOUR), "it is asked anew"


def test_it_holds_nothing_while_it_waits(store: Store) -> None:
    record = asking(store)
    assert store.claims.make_ready(limit=9) == []
    assert store.claims.start([Start(record.run.id)], worker="w1", epoch=None, lease=LEASE) == []


def asked_by_its_handler(store: Store, **more: Any) -> TaskRecord:
    claim = restarted(store, added(store))
    wait = Wait(approval="Send 40 mails?", by=HOUR, checkpoint={"drafts": 40}, **more)
    store.claims.settle([settle(claim, wait, now=store.now(), jitter=0.5)])
    return store.tasks.get(TENANT, claim.task.id)


@pytest.mark.parametrize("given", [APPROVE, REJECT])
def test_a_handler_asks_and_goes_on_with_the_answer(store: Store, clock: Clock, given: ApprovalAnswer) -> None:
    record = asked_by_its_handler(store)
    assert (record.run.state, inbox(store)) == (State.SUSPENDED, [(State.WAITING, "Send 40 mails?")])
    assert store.approvals.answered(TENANT, record.run.id) is None
    with pytest.raises(Refused, match="needs an approval first"):
        change(store, record, EventKind.RUN_NOW, partial(changes.run_now, now=clock()))
    clock.forward(minutes=5)
    found = answer(store, record, given, reason="go on")
    assert (found.run.state, found.run.wake_at, inbox(store)) == (State.SUSPENDED, clock(), [])
    claim = restarted(store, record)
    assert (claim.run.attempt, claim.run.checkpoint) == (2, {"drafts": 40})
    assert as_answer(store.approvals.answered(TENANT, record.run.id)) == {
        "answer": given.value, "by": "bob", "reason": "go on",
    }  # fmt: skip
    store.claims.settle([settle(claim, Done("sent"), now=clock(), jitter=0.5)])
    assert inbox(store) == [(State.SUCCEEDED, "sent")]


@pytest.mark.parametrize("first", [True, False])
def test_a_handler_reads_the_default_answer_when_nobody_gave_one(store: Store, clock: Clock, *, first: bool) -> None:
    record = asked_by_its_handler(store)
    clock.forward(minutes=59)
    assert store.claims.make_ready(limit=9) == []
    clock.forward(minutes=1)
    if first:
        assert store.approvals.expire(limit=9) == [record.task.id]
    [ready] = store.claims.make_ready(limit=9)
    assert ready.run_id == record.run.id
    found = as_answer(store.approvals.answered(TENANT, record.run.id))
    assert found is not None
    assert (found["answer"], found["by"]) == ("reject", "duetime")


def test_a_cancelled_run_takes_the_question_of_its_handler_back(store: Store, clock: Clock) -> None:
    record = asked_by_its_handler(store)
    change(store, record, EventKind.CANCELLED, partial(changes.cancel, now=clock()))
    assert inbox(store) == []
    clock.forward(hours=1)
    assert store.approvals.expire(limit=9) == []

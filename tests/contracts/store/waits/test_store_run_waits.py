"""Runs that wait for a signal in the middle of their work: suspended with the wait, woken by the signal or its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.outcomes import Done, Wait
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Claim, Settlement, Verdict
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.signals import send_signal
from duetime.scheduler.store.statements.signals import new_waits, wait_room
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskRecord, due_at
from duetime.scheduler.waits.signal import KeptWait, ReceivedSignal, SentSignal

from tests.builders import NOON, TENANT, Clock, added, restarted

HOUR = timedelta(hours=1)


def suspension(store: Store, claim: Claim, event: str = "paid", **more: Any) -> Settlement:
    wait = Wait(event=event, timeout=HOUR, checkpoint={"asked": True}, **more)
    return settle(claim, wait, now=store.now(), jitter=0.5)


def suspended(store: Store, event: str = "paid", **more: Any) -> TaskRecord:
    """Return a task whose handler has begun, and waits."""
    claim = restarted(store, added(store))
    assert store.claims.settle([suspension(store, claim, event, **more)]) == [Verdict.SETTLED]
    return store.tasks.get(TENANT, claim.task.id)


def send(store: Store, name: str = "paid", event_id: str = "e1", tenant: str = TENANT, **data: Any) -> SentSignal:
    return store.signals.send(tenant, ReceivedSignal(name, event_id, data), actor="bob")


def last_wait(store: Store, record: TaskRecord) -> KeptWait:
    found = store.signals.wait_of_run(TENANT, record.task.id, record.run.id)
    assert found is not None
    return found


def again(store: Store, record: TaskRecord) -> TaskRecord:
    return store.tasks.get(TENANT, record.task.id)


def change(store: Store, record: TaskRecord, kind: EventKind, decide: Callable[..., Any]) -> TaskRecord:
    return store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=decide)


def reasons(store: Store, record: TaskRecord) -> list[tuple[EventKind, str | None]]:
    found = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=9, cursor=None).events
    return [(each.kind, each.reason) for each in found]


def test_a_run_goes_on_with_its_checkpoint_when_its_event_comes(store: Store, clock: Clock) -> None:
    told: list[str] = []
    record = suspended(store, match={"order": 7})
    assert (record.run.state, store.claims.make_ready(limit=9)) == (State.SUSPENDED, [])
    store.commits.listen(told.extend)
    clock.forward(minutes=5)
    assert (send(store, order=8).freed, send(store, tenant="globex", order=7).freed) == (0, 0)
    assert (send(store, event_id="e2", order=7).freed, told) == (1, [record.task.id])
    assert reasons(store, record)[0] == (EventKind.UNBLOCKED, "the event 'paid' came (e2)")
    claim = restarted(store, record)
    assert (claim.run.id, claim.run.attempt, claim.run.checkpoint) == (record.run.id, 2, {"asked": True})
    assert last_wait(store, record).signal == ReceivedSignal("paid", "e2", {"order": 7}, clock())
    assert (send(store, event_id="e2", order=7).repeated, send(store, event_id="e3", order=7).freed) == (True, 0)
    store.claims.settle([settle(claim, Done("paid"), now=clock(), jitter=0.5)])
    assert again(store, record).run.state is State.SUCCEEDED


def test_a_run_goes_on_without_an_event_when_its_time_is_over(store: Store, clock: Clock) -> None:
    record = suspended(store)
    assert store.claims.next_times().late_at == NOON + HOUR
    clock.forward(hours=1)
    assert store.claims.make_ready(limit=9) == [], "whether an event came in time, one transaction decides"
    assert store.signals.end_late(limit=9) == [record.task.id]
    assert (last_wait(store, record).timed_out, send(store).freed) == (True, 0)
    assert reasons(store, record)[0] == (EventKind.UNBLOCKED, "no event 'paid' came in time")
    assert restarted(store, record).run.attempt == 2


@pytest.mark.parametrize("wait", [Wait(event="paid", timeout=HOUR), Wait(approval="Send it?", by=HOUR)])
def test_a_run_is_due_when_its_wait_ends_wherever_it_is_listed(store: Store, clock: Clock, wait: Wait) -> None:
    claim = restarted(store, added(store))
    store.claims.settle([settle(claim, wait, now=clock(), jitter=0.5)])
    record = store.tasks.get(TENANT, claim.task.id)
    assert (record.run.wake_at, due_at(record.run)) == (NOON + HOUR, NOON + HOUR)
    for before, listed in ((HOUR, []), (2 * HOUR, [record.task.id])):
        page, _ = store.tasks.page(TENANT, TaskFilter(before=NOON + before), limit=9)
        assert [each.task.id for each in page] == listed


def test_a_wait_that_cannot_end_holds_its_run_up_for_a_minute_at_most(store: Store, clock: Clock) -> None:
    record = suspended(store)
    clock.forward(hours=1, seconds=59)
    assert store.claims.make_ready(limit=9) == []
    clock.forward(seconds=1)
    assert [ready.run_id for ready in store.claims.make_ready(limit=9)] == [record.run.id]


def test_an_event_that_came_before_the_wait_is_found_within_its_lookback(store: Store, clock: Clock) -> None:
    claim = restarted(store, added(store))
    send(store)
    clock.forward(minutes=5)
    store.claims.settle([suspension(store, claim, lookback=timedelta(minutes=4))])
    assert last_wait(store, store.tasks.get(TENANT, claim.task.id)).is_open
    told: list[str] = []
    store.commits.listen(told.extend)
    record = suspended(store, lookback=NOON)
    assert (told, record.run.wake_at) == ([record.task.id], clock())
    assert restarted(store, record).run.attempt == 2


def test_a_second_wait_for_the_same_finds_only_what_came_later(store: Store, clock: Clock) -> None:
    record = suspended(store)
    clock.forward(minutes=1)
    send(store, order=7)
    clock.forward(minutes=1)
    store.claims.settle([suspension(store, restarted(store, record), lookback=HOUR)])
    assert last_wait(store, record).is_open, "it has had that one"
    assert send(store, event_id="e2", order=8).freed == 1
    store.claims.settle([suspension(store, restarted(store, record), lookback=HOUR, match={"order": 7})])
    found = last_wait(store, record).signal
    assert found is not None
    assert found.id == "e1", "another wait looks at all that came"


@pytest.mark.parametrize("kind", [EventKind.RUN_NOW, EventKind.RESCHEDULED, EventKind.SNOOZED])
def test_nothing_wakes_it_before_but_a_cancel_ends_it(store: Store, clock: Clock, kind: EventKind) -> None:
    record = suspended(store)
    clock.forward(minutes=1)
    decide: dict[EventKind, Callable[..., Any]] = {
        EventKind.RUN_NOW: partial(changes.run_now, now=clock()),
        EventKind.RESCHEDULED: partial(changes.move, to=NOON + HOUR / 2, now=clock()),
        EventKind.SNOOZED: partial(changes.snooze, by=HOUR, now=clock()),
    }
    with pytest.raises(Refused, match="waits for the event 'paid', which it needs first"):
        change(store, record, kind, decide[kind])
    cancelled = change(store, record, EventKind.CANCELLED, partial(changes.cancel, now=clock()))
    assert (cancelled.run.state, send(store).freed) == (State.CANCELLED, 0)
    clock.forward(days=3)
    store.signals.end_late(limit=9)
    assert again(store, record).run.state is State.CANCELLED


def test_the_end_of_a_wait_comes_after_a_pause(store: Store, clock: Clock) -> None:
    record = suspended(store)
    change(store, record, EventKind.PAUSED, changes.pause)
    clock.forward(days=3)
    assert store.signals.end_late(limit=9) == []
    change(store, record, EventKind.RESUMED, partial(changes.resume, now=clock()))
    assert store.signals.end_late(limit=9) == [record.task.id]
    assert (last_wait(store, record).timed_out, restarted(store, record).run.attempt) == (True, 2)


def test_a_run_that_was_moved_when_its_wait_was_over_keeps_its_time_after_the_pause(store: Store, clock: Clock) -> None:
    record = suspended(store)
    change(store, record, EventKind.PAUSED, changes.pause)
    clock.forward(hours=2)
    later = clock() + HOUR
    change(store, record, EventKind.RESCHEDULED, partial(changes.move, to=later, now=clock()))
    change(store, record, EventKind.RESUMED, partial(changes.resume, now=clock()))
    store.signals.end_late(limit=9)
    assert (again(store, record).run.wake_at, last_wait(store, record).timed_out) == (later, True)


def test_an_event_during_a_pause_counts_at_its_end(store: Store, clock: Clock) -> None:
    record = suspended(store)
    change(store, record, EventKind.PAUSED, changes.pause)
    assert send(store).freed == 1
    assert store.claims.make_ready(limit=9) == []
    change(store, record, EventKind.RESUMED, partial(changes.resume, now=clock()))
    assert restarted(store, record).run.attempt == 2


def test_a_lost_attempt_stores_no_wait(store: Store, clock: Clock) -> None:
    claim = restarted(store, added(store))
    late = suspension(store, claim)
    store.claims.settle([settle(claim, Done("done"), now=clock(), jitter=0.5)])
    assert store.claims.settle([late]) == [Verdict.FENCED]
    assert store.signals.wait_of_run(TENANT, claim.task.id, claim.run.id) is None


def test_a_run_that_is_to_be_cancelled_does_not_wait(store: Store, clock: Clock) -> None:
    record = added(store)
    claim = restarted(store, record)
    change(store, record, EventKind.CANCELLED, partial(changes.cancel, now=clock()))
    verdicts = store.claims.settle([suspension(store, claim)])
    assert verdicts in ([Verdict.SETTLED], [Verdict.STALE])
    assert (send(store).freed, store.signals.wait_of_run(TENANT, record.task.id, record.run.id)) == (0, None)


def test_without_room_for_the_wait_the_attempt_fails_and_is_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_room, "MAX_WAITS_OPEN", 0)
    suspended(store)
    record = suspended(store)
    assert record.run.state is State.RETRYING
    assert "wait for the event 'paid' already" in (record.run.error or "")
    assert suspended(store, "shipped").run.state is State.SUSPENDED


@pytest.mark.parametrize("first", ["wait", "signal"])
def test_a_wait_of_a_run_and_a_signal_at_the_same_moment_meet(
    url: str, store: Store, clock: Clock, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each runs on a connection of its own; the first has written, and commits when the second has come as far."""
    reached, go_on = threading.Event(), threading.Event()
    place, name = (new_waits, "store") if first == "wait" else (send_signal, "_closed")
    original = getattr(place, name)
    claim = restarted(store, added(store))

    def pausing(*given: Any) -> Any:
        done = original(*given)
        reached.set()
        assert go_on.wait(20)
        return done

    monkeypatch.setattr(place, name, pausing)
    other = open_store(url, clock=clock, synchronous="OFF")
    ended = suspension(store, claim)
    calls: dict[str, Callable[[], object]] = {
        "wait": lambda: store.claims.settle([ended]),
        "signal": lambda: send(other),
    }
    threads = [threading.Thread(target=calls[which]) for which in sorted(calls, key=lambda each: each != first)]
    threads[0].start()
    assert reached.wait(20)
    threads[1].start()
    threads[1].join(0.2)
    go_on.set()
    for thread in threads:
        thread.join(20)
    other.close()
    run = store.tasks.get(TENANT, claim.task.id).run
    assert (run.state, run.wake_at) == (State.SUSPENDED, clock())
    assert store.signals.open_of(TENANT, [run.id]) == {}

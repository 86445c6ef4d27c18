"""Tasks that wait for signals: one that is sent lets them go in its own transaction, and none is missed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.chain.dependency import Dependency
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.rules import changes
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.signals import send_signal
from duetime.scheduler.store.statements.signals import new_waits, wait_room
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.signal import OnTimeout, ReceivedSignal, SentSignal, SignalWait

from tests.builders import NOON, TENANT, Clock, a_task, added, restarted, settlement
from tests.contracts.store.statement_log import statements_of

HOUR = timedelta(hours=1)


def a_wait(name: str = "paid", *, since: datetime = NOON, until: datetime = NOON + HOUR, **values: Any) -> SignalWait:
    return SignalWait(name, values.pop("match", {}), since, until, **values)


def waiting(store: Store, wait: SignalWait, *upstreams: TaskRecord, **values: Any) -> TaskRecord:
    task, run = a_task(**values)
    held = replace(run, state=State.WAITING, wake_at=None)
    after = [Dependency(each.task.id) for each in upstreams]
    return store.tasks.add(task, held, actor="alice", after=after, wait=wait).record


def send(store: Store, name: str = "paid", event_id: str = "e1", tenant: str = TENANT, **data: Any) -> SentSignal:
    return store.signals.send(tenant, ReceivedSignal(name, event_id, data), actor="bob")


def state(store: Store, record: TaskRecord) -> State:
    return store.tasks.get(TENANT, record.task.id).run.state


def change(store: Store, record: TaskRecord, decide: Callable[..., Any], kind: EventKind) -> TaskRecord:
    return store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=partial(decide, now=store.now()))


def last_reason(store: Store, record: TaskRecord) -> tuple[EventKind, str | None]:
    found = store.history.events(TENANT, EventFilter(task_id=record.task.id), limit=1, cursor=None).events[0]
    return found.kind, found.reason


def test_a_signal_lets_the_tasks_go_that_wait_for_its_name_and_its_members(store: Store, clock: Clock) -> None:
    told: list[str] = []
    store.commits.listen(told.extend)
    meant = waiting(store, a_wait(match={"order.id": 7}))
    other = waiting(store, a_wait(match={"order.id": 8}))
    named = waiting(store, a_wait("shipped"))
    assert meant.run.state is State.WAITING
    clock.forward(minutes=5)
    found = send(store, order={"id": 7})
    assert (found.freed, found.matched, told) == (1, 0, [meant.task.id])
    assert [state(store, each) for each in (meant, other, named)] == [State.SCHEDULED, State.WAITING, State.WAITING]
    assert store.claims.next_times().wake_at == clock()
    assert last_reason(store, meant) == (EventKind.UNBLOCKED, "the event 'paid' came (e1)")
    kept = store.signals.wait_of_run(TENANT, meant.task.id, meant.run.id)
    assert kept is not None
    assert kept.signal == ReceivedSignal("paid", "e1", {"order": {"id": 7}}, clock())
    assert store.signals.wait_of_run("globex", meant.task.id, meant.run.id) is None


def test_signals_of_other_tenants_free_nobody(store: Store) -> None:
    task = waiting(store, a_wait())
    assert send(store, tenant="globex").freed == 0
    assert state(store, task) is State.WAITING
    assert send(store).freed == 1, "the same id is another signal for another tenant"


def test_a_doubled_signal_is_one(store: Store) -> None:
    first = waiting(store, a_wait())
    assert send(store).freed == 1
    second = waiting(store, a_wait(since=NOON + HOUR))
    again = send(store)
    assert (again.repeated, again.freed) == (True, 1)
    assert [state(store, each) for each in (first, second)] == [State.SCHEDULED, State.WAITING]


def test_a_signal_that_came_before_is_found_within_the_lookback_only(store: Store, clock: Clock) -> None:
    send(store, order=7)
    clock.forward(minutes=10)
    late = waiting(store, a_wait(since=clock() - timedelta(minutes=9)))
    other = waiting(store, a_wait(since=clock() - timedelta(minutes=10), match={"order": 8}))
    found = waiting(store, a_wait(since=clock() - timedelta(minutes=10), match={"order": 7}))
    assert (late.run.state, other.run.state, found.run.state) == (State.WAITING, State.WAITING, State.SCHEDULED)
    assert found.run.wake_at == clock()


def test_a_task_that_comes_after_others_waits_for_all(store: Store, clock: Clock) -> None:
    first = added(store)
    task = waiting(store, a_wait(), first)
    found = send(store)
    assert (found.freed, found.matched, state(store, task)) == (0, 1, State.WAITING)
    store.claims.settle([settlement(restarted(store, first))])
    assert state(store, task) is State.SCHEDULED
    second = added(store)
    other = waiting(store, a_wait("shipped"), second, scheduled_for=NOON + HOUR)
    store.claims.settle([settlement(restarted(store, second))])
    assert state(store, other) is State.WAITING
    assert send(store, "shipped", "e2").freed == 1
    assert store.tasks.get(TENANT, other.task.id).run.wake_at == NOON + HOUR, "not before its own time"
    assert clock() < NOON + HOUR


def test_a_task_that_comes_after_one_that_has_succeeded_still_waits_for_its_event(store: Store) -> None:
    first = added(store)
    store.claims.settle([settlement(restarted(store, first))])
    task = waiting(store, a_wait(), first)
    assert (task.run.state, state(store, task)) == (State.WAITING, State.WAITING)
    found = send(store)
    assert (found.freed, state(store, task)) == (1, State.SCHEDULED)
    kind, reason = last_reason(store, task)
    assert (kind, (reason or "").endswith("the event 'paid' came (e1)")) == (EventKind.UNBLOCKED, True)
    late = waiting(store, a_wait(since=store.now()), first)
    assert late.run.state is State.SCHEDULED, "an event that it looks back to lets it go at once"


@pytest.mark.parametrize(
    ("policy", "to"),
    [(OnTimeout.EXPIRE, State.EXPIRED), (OnTimeout.SKIP, State.SKIPPED), (OnTimeout.RUN, State.SCHEDULED)],
)
def test_a_wait_that_is_over_ends_as_its_caller_said(store: Store, clock: Clock, policy: OnTimeout, to: State) -> None:
    task = waiting(store, a_wait(on_timeout=policy))
    behind = waiting(store, a_wait("other", until=NOON + 9 * HOUR), task)
    assert store.claims.next_times().late_at == NOON + HOUR
    clock.forward(minutes=59)
    assert store.signals.end_late(limit=9) == []
    clock.forward(minutes=1)
    assert store.signals.end_late(limit=9) == [task.task.id]
    assert state(store, task) is to
    assert "no event 'paid' came in time" in (last_reason(store, task)[1] or "")
    if to is State.SKIPPED:
        assert store.tasks.get(TENANT, task.task.id).run.summary == "it did not run: no event 'paid' came in time"
        [ended] = store.run_history.page(TENANT, RunFilter(task_id=task.task.id), limit=9).runs
        assert ended.why == "skipped by duetime: it did not run: no event 'paid' came in time"
    followed = {State.EXPIRED: State.FAILED, State.SKIPPED: State.SKIPPED, State.SCHEDULED: State.WAITING}
    assert state(store, behind) is followed[to]
    assert send(store).freed == 0
    if to is State.EXPIRED:
        [message] = [m for m in store.inbox.unread(TENANT, "alice") if m.task_id == task.task.id]
        assert message.text == "it did not run: no event 'paid' came in time"


def test_a_wait_of_a_paused_task_is_over_at_its_resume(store: Store, clock: Clock) -> None:
    task = waiting(store, a_wait())
    change(store, task, lambda record, **_: changes.pause(record), EventKind.PAUSED)
    clock.forward(hours=2)
    assert store.claims.next_times().late_at is None
    assert store.signals.end_late(limit=9) == []
    change(store, task, changes.resume, EventKind.RESUMED)
    assert store.signals.end_late(limit=9) == [task.task.id]
    assert state(store, task) is State.EXPIRED


def test_a_cancelled_task_that_is_taken_back_waits_on_and_misses_nothing(store: Store, clock: Clock) -> None:
    task = waiting(store, a_wait())
    change(store, task, changes.cancel, EventKind.CANCELLED)
    change(store, task, partial(changes.undo_cancel, token=None), EventKind.CANCEL_UNDONE)
    assert state(store, task) is State.WAITING
    change(store, task, changes.cancel, EventKind.CANCELLED)
    assert send(store).freed == 0
    change(store, task, partial(changes.undo_cancel, token=None), EventKind.CANCEL_UNDONE)
    assert state(store, task) is State.SCHEDULED


def test_a_signal_starts_a_task_before_its_time_where_it_is_the_first_of_both(store: Store, clock: Clock) -> None:
    early = a_wait(until=NOON + HOUR, on_timeout=OnTimeout.RUN, at_once=True)
    first = waiting(store, early, scheduled_for=NOON + HOUR)
    second = waiting(store, SignalWait("other", {}, NOON, NOON + HOUR, OnTimeout.RUN, at_once=True))
    clock.forward(minutes=5)
    assert send(store).freed == 1
    assert store.tasks.get(TENANT, first.task.id).run.wake_at == clock()
    moved = NOON + 2 * HOUR
    change(store, second, lambda record, now: changes.move(record, moved, now), EventKind.RESCHEDULED)
    assert state(store, second) is State.WAITING
    assert store.claims.next_times().late_at == moved
    clock.forward(hours=2)
    assert store.signals.end_late(limit=9) == [second.task.id]
    assert last_reason(store, second) == (EventKind.UNBLOCKED, "its time came before the event 'other'")


@pytest.mark.parametrize("wait", [a_wait(), a_wait("waived", others=(a_wait(),))], ids=["one", "another one of two"])
@pytest.mark.parametrize("first", ["wait", "signal"])
def test_a_wait_and_a_signal_at_the_same_moment_meet(
    url: str, store: Store, clock: Clock, *, first: str, wait: SignalWait, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each runs on a connection of its own; the first has written, and commits when the second has come as far."""
    reached, go_on = threading.Event(), threading.Event()
    place, name = (new_waits, "add") if first == "wait" else (send_signal, "_closed")
    original = getattr(place, name)

    def pausing(*given: Any) -> Any:
        done = original(*given)
        reached.set()
        assert go_on.wait(20)
        return done

    monkeypatch.setattr(place, name, pausing)
    other = open_store(url, clock=clock, synchronous="OFF")
    calls: dict[str, Callable[[], object]] = {"wait": lambda: waiting(store, wait), "signal": lambda: send(other)}
    made: dict[str, Any] = {}

    def call(which: str) -> None:
        made[which] = calls[which]()

    threads = [threading.Thread(target=call, args=(which,)) for which in sorted(calls, key=lambda w: w != first)]
    threads[0].start()
    assert reached.wait(20)
    threads[1].start()
    threads[1].join(0.2)
    go_on.set()
    for thread in threads:
        thread.join(20)
    other.close()
    assert state(store, made["wait"]) is State.SCHEDULED
    assert made["signal"].freed == (first == "wait")


def test_received_signals_and_waits_are_bounded(store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_signal, "_TOO_MANY", send_signal._TOO_MANY.offset(2))
    for number in range(3):
        send(store, event_id=f"e{number}")
        clock.forward(seconds=1)
    assert send(store, event_id="e2").repeated
    assert not send(store, event_id="e0").repeated, "the oldest of three went"
    clock.forward(days=7)
    assert store.signals.forget(limit=1) == 1
    assert store.signals.forget(limit=9) == 0
    clock.forward(seconds=1)
    assert store.signals.forget(limit=9) == 1


def test_surplus_signals_are_looked_for_at_some_sends_and_deleted_together(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_signal, "_TOO_MANY", send_signal._TOO_MANY.offset(2))
    for number in range(5):
        clock.forward(seconds=1)
        clock.at = clock.at.replace(microsecond=1)
        send(store, event_id=f"e{number}")
    assert send(store, event_id="e0").repeated, "no send has looked for surplus"
    clock.at = clock.at.replace(microsecond=send_signal.SENDS_PER_CHECK)
    send(store, event_id="e5")
    clock.forward(days=8)
    assert store.signals.forget(limit=9) == 2, "the oldest four went"


def test_open_waits_are_counted_rarely_while_there_is_much_room(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_room, "MAX_WAITS_OPEN", 20)
    with statements_of(store) as statements:
        for _ in range(21):
            waiting(store, a_wait())
    assert sum("count(*)" in sql and "signal_waits" in sql for sql in statements) < 16
    with pytest.raises(Refused, match="More than 20 tasks wait for the event 'paid' already"):
        waiting(store, a_wait())


def test_too_many_waits_for_one_name_are_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_room, "MAX_WAITS_OPEN", 2)
    for _ in range(3):
        waiting(store, a_wait())
    with pytest.raises(Refused, match="wait for the event 'paid' already"):
        waiting(store, a_wait())
    assert waiting(store, a_wait("other")).run.state is State.WAITING


EITHER = (a_wait("waived"), a_wait("refunded", match={"order": 7}))


@pytest.mark.parametrize(("name", "order"), [("paid", 1), ("waived", 1), ("refunded", 7)])
def test_any_of_several_signals_ends_a_wait_and_the_first_is_the_one(
    store: Store, clock: Clock, name: str, order: int
) -> None:
    task = waiting(store, a_wait(others=EITHER))
    clock.forward(minutes=5)
    assert send(store, "refunded", "e0", order=8).freed == 0
    assert (send(store, name, "e1", order=order).freed, state(store, task)) == (1, State.SCHEDULED)
    assert [send(store, each, f"late-{each}", order=7).freed for each in ("paid", "waived", "refunded")] == [0, 0, 0]
    kept = store.signals.wait_of_run(TENANT, task.task.id, task.run.id)
    assert kept is not None
    assert kept.signal == ReceivedSignal(name, "e1", {"order": order}, NOON + timedelta(minutes=5))
    assert store.claims.next_times().late_at is None, "nothing of it is waited for any more"
    assert last_reason(store, task) == (EventKind.UNBLOCKED, f"the event {name!r} came (e1)")


def test_the_end_of_a_wait_for_several_signals_holds_for_all(store: Store, clock: Clock) -> None:
    task = waiting(store, a_wait(others=EITHER))
    found = store.signals.open_of(TENANT, [task.task.id])[task.task.id]
    assert [each.name for each in found.wait.all] == ["paid", "waived", "refunded"]
    clock.forward(hours=1)
    assert task.task.id in store.signals.end_late(limit=9)
    assert last_reason(store, task)[1] == "it did not run: no event 'paid' or 'waived' or 'refunded' came in time"
    assert (send(store, "waived").freed, state(store, task)) == (0, State.EXPIRED)


def test_the_newest_of_several_signals_that_came_before_is_found(store: Store, clock: Clock) -> None:
    send(store, "waived", "e1")
    clock.forward(minutes=1)
    send(store, "refunded", "e2", order=7)
    clock.forward(minutes=1)
    task = waiting(store, a_wait(since=clock(), others=EITHER))
    kept = store.signals.wait_of_run(TENANT, task.task.id, task.run.id)
    assert (task.run.state, kept and kept.signal and kept.signal.id) == (State.SCHEDULED, "e2")


def test_an_undone_cancel_waits_for_all_of_several_signals(store: Store, clock: Clock) -> None:
    task = waiting(store, a_wait(others=EITHER))
    change(store, task, changes.cancel, EventKind.CANCELLED)
    change(store, task, partial(changes.undo_cancel, token=None), EventKind.CANCEL_UNDONE)
    assert state(store, task) is State.WAITING
    assert send(store, "waived").freed == 1


def test_a_task_for_the_first_of_its_time_and_several_signals_is_moved_with_all_of_them(
    store: Store, clock: Clock
) -> None:
    at_once: dict[str, Any] = {"on_timeout": OnTimeout.RUN, "at_once": True}
    task = waiting(store, a_wait(others=(a_wait("waived", **at_once),), **at_once), scheduled_for=NOON + HOUR)
    change(store, task, lambda record, now: changes.move(record, NOON + 3 * HOUR, now), EventKind.RESCHEDULED)
    clock.forward(hours=2)
    assert store.signals.end_late(limit=9) == []
    assert (send(store, "waived").freed, state(store, task)) == (1, State.SCHEDULED)


def test_a_signal_that_comes_too_late_while_a_task_is_cancelled_is_read_when_that_is_undone(
    store: Store, clock: Clock
) -> None:
    upstream = added(store)
    task = waiting(store, a_wait(others=EITHER, on_timeout=OnTimeout.RUN), upstream)
    clock.forward(hours=1)
    store.signals.end_late(limit=9)
    change(store, task, changes.cancel, EventKind.CANCELLED)
    assert send(store, "waived").freed == 0
    change(store, task, partial(changes.undo_cancel, token=None), EventKind.CANCEL_UNDONE)
    kept = store.signals.wait_of_run(TENANT, task.task.id, task.run.id)
    assert kept is not None
    assert (state(store, task), kept.signal and kept.signal.name) == (State.WAITING, "waived")


def test_of_two_signals_at_once_that_a_task_waits_for_one_is_recorded(url: str, store: Store, clock: Clock) -> None:
    task, other = waiting(store, a_wait(others=EITHER)), open_store(url, clock=clock, synchronous="OFF")
    freed: list[int] = []
    threads = [
        threading.Thread(target=lambda name, to: freed.append(send(to, name, name).freed), args=each)
        for each in (("paid", store), ("waived", other))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    other.close()
    kept = store.signals.wait_of_run(TENANT, task.task.id, task.run.id)
    assert (sorted(freed), state(store, task)) == ([0, 1], State.SCHEDULED)
    assert kept is not None
    assert kept.signal is not None
    assert kept.signal.name == kept.signal.id

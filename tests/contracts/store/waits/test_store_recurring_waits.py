"""Recurring tasks that wait for events: each occurrence waits for its own when it is due."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.retention import Sweep
from duetime.scheduler.errors import DuetimeError, Refused, StoreUnavailable
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Wait
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.occurrences import delay_of
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.signals import send_signal
from duetime.scheduler.store.statements.series import due_waits
from duetime.scheduler.store.statements.signals import new_waits, wait_room
from duetime.scheduler.task import Run, State
from duetime.scheduler.waits.signal import KeptWait, ReceivedSignal
from sqlalchemy import Connection, update

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

TENANT = "local"


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    upstreams = store.dependencies.known
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", upstreams=upstreams)), store, clock)


def report(desk: Desk, *, when: str | None = None, **more: Any) -> str:
    """Schedule an hourly task of which each run waits for `ready`, 20 minutes at most; its first one is due at 9."""
    wait = {"event": "ready", "timeout": "20 min"} | {
        name: more.pop(name) for name in ("match", "lookback", "timeout", "on_timeout") if name in more
    }
    return desk.scheduler.schedule("Report", repeat="every hour at :00", wait_for=wait, **more).record.task.id


def send(desk: Desk, event_id: str, name: str = "ready", **data: Any) -> int:
    return desk.scheduler.signals.send(name, data, event_id=event_id).freed


def waits(desk: Desk, hour: int, minute: int = 0) -> bool:
    """Look for due runs at a time, and return whether the one task waits by now."""
    assert desk.start(hour, minute) == [], "nothing goes before its event"
    return [each.record.run.state for each in desk.scheduler.tasks.list().views] == [State.WAITING]


def starts(desk: Desk, hour: int, minute: int = 0) -> list[datetime]:
    return [claim.run.scheduled_for for claim in desk.start(hour, minute)]


def current(desk: Desk, task_id: str) -> Run:
    return desk.scheduler.get(task_id).record.run


def kept(desk: Desk, task_id: str) -> KeptWait | None:
    return desk.store.signals.wait_of_run(TENANT, task_id, current(desk, task_id).id)


def span(desk: Desk, task_id: str) -> tuple[datetime, datetime] | None:
    """Return from when to when the current run waits; None where no wait is open."""
    found = kept(desk, task_id)
    return (found.wait.since, found.wait.until) if found and found.is_open else None


def too_late(desk: Desk, hour: int, minute: int) -> list[str]:
    desk.clock.at = at(hour, minute)
    return desk.store.signals.end_late(limit=9)


def told(desk: Desk, task_id: str, kind: EventKind) -> list[Event]:
    return list(reversed(desk.scheduler.past.events(EventFilter(task_id=task_id, kind=kind)).events))


def test_each_occurrence_waits_for_its_own_event_when_it_is_due(desk: Desk) -> None:
    task_id = report(desk)
    assert send(desk, "early") == 0
    assert (waits(desk, 8, 59), current(desk, task_id).state) == (False, State.SCHEDULED)
    for hour in (9, 10):
        assert waits(desk, hour), hour
        assert span(desk, task_id) == (at(hour), at(hour, 20)), "the event that came before its time does not count"
        assert desk.store.claims.next_times().wake_at is None, "it holds nothing, and no timer of runs looks at it"
        desk.clock.at = at(hour, 5)
        assert send(desk, f"e{hour}", report=hour) == 1
        [claim] = desk.start(hour, 5)
        assert (claim.run.scheduled_for, claim.run.number) == (at(hour), hour - 8), "it keeps its place in the series"
        found = desk.store.signals.wait_of_run(TENANT, task_id, claim.run.id)
        assert found
        assert found.signal
        assert (found.signal.id, found.signal.data) == (f"e{hour}", {"report": hour}), "its handler reads it"
        desk.end([claim])
    assert desk.runs(task_id) == {9: State.SUCCEEDED, 10: State.SUCCEEDED, 11: State.SCHEDULED}
    began = told(desk, task_id, EventKind.WAIT_BEGAN)
    assert [(each.from_state, each.to_state) for each in began] == [(State.SCHEDULED, State.WAITING)] * 2
    reasons = [each.reason for each in told(desk, task_id, EventKind.UNBLOCKED)]
    assert reasons == ["the event 'ready' came (e9)", "the event 'ready' came (e10)"]


def test_only_data_that_match_let_it_go_and_one_event_lets_one_run_of_each_task_go(desk: Desk) -> None:
    first, second = report(desk, match={"kind": "day"}), report(desk)
    assert desk.start(9) == []
    assert send(desk, "e1", kind="week") == 1, "the second one takes any"
    assert [current(desk, each).state for each in (first, second)] == [State.WAITING, State.SCHEDULED]
    assert send(desk, "e2", kind="day") == 1
    assert len(desk.start(9)) == 2


def test_an_event_of_the_lookback_lets_it_go_at_once_and_does_not_count_again(desk: Desk) -> None:
    task_id = report(desk, lookback="2 hours", timeout="2 hours")
    desk.clock.at = at(8, 30)
    assert send(desk, "e1") == 0
    assert desk.start(9) == [], "it waits, and goes"
    assert [each.kind for each in desk.scheduler.past.events(EventFilter(task_id=task_id)).events][:2] == [
        EventKind.UNBLOCKED,
        EventKind.WAIT_BEGAN,
    ]
    desk.end(desk.start(9))
    assert waits(desk, 10), "the run of 9 had that event"
    assert send(desk, "e2") == 1
    assert starts(desk, 10) == [at(10)]


def test_a_run_that_is_late_takes_what_came_since_its_time(desk: Desk) -> None:
    report(desk)
    desk.clock.at = at(9, 10)
    assert send(desk, "e1") == 0
    assert desk.start(9, 30) == []
    assert starts(desk, 9, 30) == [at(9)]


def test_the_timeout_counts_from_when_it_waits_and_not_from_its_time(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9, 10)
    assert span(desk, task_id) == (at(9), at(9, 30))
    assert desk.store.claims.next_times().late_at == at(9, 30)


def test_a_run_is_never_kept_waiting_before_its_time(desk: Desk) -> None:
    task_id = report(desk)
    desk.clock.at = at(9) - timedelta(milliseconds=500)
    assert desk.store.claims.make_ready(limit=9, ahead=timedelta(seconds=1)) == []
    assert (current(desk, task_id).state, span(desk, task_id)) == (State.WAITING, (at(9), at(9, 20)))
    desk.clock.at = at(9)
    assert send(desk, "e1") == 1
    assert starts(desk, 9) == [at(9)]


def test_an_occurrence_whose_event_does_not_come_expires_and_the_series_goes_on(desk: Desk) -> None:
    task_id = report(desk)
    for hour in (9, 10):
        assert waits(desk, hour)
        assert too_late(desk, hour, 19) == []
        assert too_late(desk, hour, 20) == [task_id]
    assert desk.runs(task_id) == {9: State.EXPIRED, 10: State.EXPIRED, 11: State.SCHEDULED}
    assert current(desk, task_id).number == 3
    messages = [(each.state, each.text) for each in desk.scheduler.inbox.unread()]
    assert messages == [(State.EXPIRED, "it did not run: no event 'ready' came in time")] * 2
    [last] = told(desk, task_id, EventKind.EXPIRED)[1:]
    assert (last.reason, last.actor) == ("it did not run: no event 'ready' came in time", "duetime")


def test_an_occurrence_is_skipped_at_its_timeout_where_that_was_said_and_uses_up_no_number(desk: Desk) -> None:
    task_id = report(desk, on_timeout="skip", max_runs=1, until=at(10, 30))
    assert waits(desk, 9)
    assert too_late(desk, 9, 20) == [task_id]
    assert waits(desk, 10), "none has run yet"
    assert too_late(desk, 10, 20) == [task_id]
    messages = [(each.state, each.text) for each in desk.scheduler.inbox.unread()]
    assert messages == [(State.SKIPPED, "it did not run: no event 'ready' came in time")] * 2
    left_out = desk.store.history.not_run("local", task_id)
    assert left_out
    assert (left_out.scheduled_for, left_out.summary) == (at(10), messages[0][1])
    assert desk.runs(task_id) == {9: State.SKIPPED, 10: State.SKIPPED}, "the last one ends the task"


def test_an_occurrence_runs_at_its_timeout_without_an_event_where_that_was_said(desk: Desk) -> None:
    task_id = report(desk, on_timeout="run")
    assert waits(desk, 9)
    assert too_late(desk, 9, 20) == [task_id]
    [claim] = desk.start(9, 20)
    assert claim.run.scheduled_for == at(9)
    found = kept(desk, task_id)
    assert found
    assert found.timed_out
    desk.end([claim])
    assert waits(desk, 10)


def test_the_last_occurrence_that_expires_ends_the_task(desk: Desk) -> None:
    task_id = report(desk, max_runs=1)
    assert waits(desk, 9)
    too_late(desk, 9, 20)
    assert desk.runs(task_id) == {9: State.EXPIRED}


def test_a_task_pauses_after_so_many_expired_occurrences_as_its_policy_says(desk: Desk) -> None:
    task_id = report(desk, repeat_policy={"pause_after": 2})
    for hour in (9, 10):
        assert waits(desk, hour)
        too_late(desk, hour, 20)
    assert desk.scheduler.get(task_id).record.task.paused
    assert [each.reason for each in told(desk, task_id, EventKind.PAUSED)] == ["2 runs in a row failed"]


def test_a_skip_at_the_timeout_is_no_failure_and_breaks_no_series_of_them(desk: Desk) -> None:
    task_id = report(desk, on_timeout="skip", repeat_policy={"pause_after": 2})
    assert waits(desk, 9)
    send(desk, "e9")
    desk.end(desk.start(9), Failed("no printer"))
    assert waits(desk, 10)
    too_late(desk, 10, 20)
    assert waits(desk, 11)
    send(desk, "e11")
    desk.end(desk.start(11), Failed("no printer"))
    assert desk.scheduler.get(task_id).record.task.paused


def test_an_occurrence_that_falls_due_while_another_waits_is_skipped_and_says_so(desk: Desk) -> None:
    task_id = report(desk, timeout="100 min")
    assert waits(desk, 9)
    assert waits(desk, 10, 30), "the occurrence of 9 is the one in progress"
    run_id = current(desk, task_id).id
    too_late(desk, 10, 40)
    assert desk.runs(task_id) == {9: State.EXPIRED, 10: State.SKIPPED, 11: State.SCHEDULED}
    skipped = told(desk, task_id, EventKind.SKIPPED)
    assert [each.reason for each in skipped] == [f"run {run_id} was still open"]


def test_a_skip_at_the_timeout_says_what_it_left_out_with_it(desk: Desk) -> None:
    task_id = report(desk, timeout="100 min", on_timeout="skip")
    assert waits(desk, 9)
    too_late(desk, 10, 40)
    assert desk.runs(task_id) == {9: State.SKIPPED, 10: State.SKIPPED, 11: State.SCHEDULED}


def test_a_late_event_runs_it_and_the_occurrences_since_are_skipped_at_its_end(desk: Desk) -> None:
    task_id = report(desk, timeout="100 min")
    assert waits(desk, 9)
    desk.clock.at = at(10, 30)
    send(desk, "e1")
    desk.end(desk.start(10, 30))
    assert desk.runs(task_id) == {9: State.SUCCEEDED, 10: State.SKIPPED, 11: State.SCHEDULED}


def test_a_buffered_occurrence_waits_when_the_one_before_it_has_ended(desk: Desk) -> None:
    task_id = report(desk, timeout="100 min", repeat_policy={"overlap": "buffer_one"})
    assert waits(desk, 9)
    too_late(desk, 10, 40)
    assert desk.runs(task_id) == {9: State.EXPIRED, 10: State.SCHEDULED}
    assert waits(desk, 10, 40)
    assert span(desk, task_id) == (at(10), at(12, 20))


def test_the_next_occurrence_takes_the_place_of_one_that_waits_where_the_policy_says_so(desk: Desk) -> None:
    task_id = report(desk, timeout="100 min", repeat_policy={"overlap": "cancel_other"})
    assert waits(desk, 9)
    desk.clock.at = at(10)
    assert desk.store.series.overtake(limit=9).tasks == [task_id]
    assert waits(desk, 10)
    assert span(desk, task_id) == (at(10), at(11, 40))
    assert desk.runs(task_id) == {9: State.CANCELLED, 10: State.WAITING}
    assert send(desk, "e1") == 1, "the wait of the run of 9 is gone"
    too_late(desk, 10, 40)
    assert starts(desk, 10, 40) == [at(10)]


def test_a_skipped_occurrence_is_followed_by_one_that_is_overtaken_in_its_turn(desk: Desk) -> None:
    task_id = report(desk, on_timeout="skip", repeat_policy={"overlap": "cancel_other"})
    assert waits(desk, 9)
    too_late(desk, 9, 20)
    assert waits(desk, 10)
    desk.clock.at = at(11)
    assert desk.store.series.overtake(limit=9).tasks == [task_id]


def test_missed_occurrences_that_are_not_caught_up_wait_for_nothing(desk: Desk) -> None:
    task_id = report(desk, repeat_policy={"coalesce": "latest"})
    assert desk.start(11, 30) == []
    assert waits(desk, 11, 30)
    assert current(desk, task_id).scheduled_for == at(11)
    assert span(desk, task_id) == (at(11), at(11, 50))


def test_any_of_several_events_lets_an_occurrence_go(desk: Desk) -> None:
    either = {"any": [{"event": "paid"}, {"event": "waived", "lookback": "1 hour"}], "timeout": "20 min"}
    task_id = desk.scheduler.schedule("Ship", repeat="every hour at :00", wait_for=either).record.task.id
    assert waits(desk, 9)
    assert send(desk, "e1", "waived") == 1
    desk.end(desk.start(9))
    assert waits(desk, 10), "the run of 9 had that event"
    too_late(desk, 10, 20)
    assert desk.runs(task_id)[10] is State.EXPIRED


def test_a_handler_may_wait_for_an_event_in_the_middle_of_such_a_run(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    send(desk, "e1")
    desk.end(desk.start(9), Wait(event="signed", timeout=timedelta(minutes=30)))
    assert current(desk, task_id).state is State.SUSPENDED
    assert send(desk, "e2") == 0
    assert send(desk, "s1", "signed") == 1
    desk.end(desk.start(9, 10), Done("sent"))
    assert waits(desk, 10)


def test_a_pause_holds_an_occurrence_that_waits_its_timeout_and_what_has_its_event(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    desk.scheduler.reschedule(task_id, pause=True)
    assert too_late(desk, 9, 30) == [], "nobody decides during a pause"
    assert send(desk, "e1") == 1
    assert desk.start(9, 31) == []
    desk.scheduler.reschedule(task_id, pause=False)
    assert starts(desk, 9, 32) == [at(9)]


def test_an_occurrence_that_waited_over_a_pause_expires_behind_it(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    desk.scheduler.reschedule(task_id, pause=True)
    desk.clock.at = at(9, 30)
    desk.scheduler.reschedule(task_id, pause=False)
    assert current(desk, task_id).state is State.WAITING
    assert too_late(desk, 9, 30) == [task_id]
    assert desk.runs(task_id) == {9: State.EXPIRED, 10: State.SCHEDULED}


def test_a_paused_series_waits_for_nothing(desk: Desk) -> None:
    task_id = report(desk)
    desk.scheduler.reschedule(task_id, pause=True)
    assert not waits(desk, 9, 1)
    desk.scheduler.reschedule(task_id, pause=False)
    assert current(desk, task_id).scheduled_for == at(10)
    assert waits(desk, 10)


def test_a_cancel_ends_the_wait_and_its_undo_waits_again_until_the_same_time(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    desk.clock.at = at(9, 1)
    desk.scheduler.cancel(task_id)
    assert span(desk, task_id) is None
    assert send(desk, "e1") == 0, "nothing waits for it"
    desk.scheduler.act(task_id, "undo")
    assert desk.start(9, 1) == [], "it waits, and the event that came since counts"
    desk.end(desk.start(9, 1))
    assert current(desk, task_id).scheduled_for == at(10)


def test_an_undone_cancel_waits_again_until_the_same_time(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    desk.clock.at = at(9, 1)
    desk.scheduler.cancel(task_id)
    desk.scheduler.act(task_id, "undo")
    assert waits(desk, 9, 2)
    assert span(desk, task_id) == (at(9), at(9, 20))


def test_the_event_that_it_had_stays_when_a_cancel_after_it_is_undone(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    send(desk, "e1")
    desk.scheduler.cancel(task_id)
    desk.scheduler.act(task_id, "undo")
    assert starts(desk, 9) == [at(9)]
    found = kept(desk, task_id)
    assert found
    assert found.signal
    assert found.signal.id == "e1"


def test_a_skip_of_an_occurrence_that_waits_ends_its_wait_and_its_undo_waits_again(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    assert desk.runs(task_id) == {9: State.SKIPPED, 10: State.SCHEDULED}
    assert send(desk, "e1") == 0
    desk.clock.at = at(9, 0) + timedelta(seconds=20)
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert desk.start(9, 1) == []
    assert starts(desk, 9, 1) == [at(9)], "the event that came since counts"


def test_an_undone_skip_waits_until_the_same_time(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    desk.clock.at = at(9, 0) + timedelta(seconds=20)
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert waits(desk, 9, 1)
    assert span(desk, task_id) == (at(9), at(9, 20))


def test_a_skip_of_an_occurrence_that_had_its_event_keeps_it_when_it_is_undone(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    send(desk, "e1")
    undo = desk.scheduler.act(task_id, "skip_next").undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert starts(desk, 9) == [at(9)]


def test_an_undone_skip_waits_again_also_where_the_next_occurrence_has_its_event_already(desk: Desk) -> None:
    task_id = report(desk, timeout="90 min")
    assert waits(desk, 9)
    desk.clock.at = at(9, 59) + timedelta(seconds=55)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    assert waits(desk, 10)
    send(desk, "e1")
    view = desk.scheduler.act(task_id, "undo", undo=undo)
    assert view.record.run.scheduled_for == at(9)
    assert desk.start(10) == []
    assert starts(desk, 10) == [at(9)], "that event counts for it as well"


def test_a_moved_occurrence_waits_from_its_new_time(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    desk.scheduler.reschedule(task_id, when="at 9:10")
    assert (current(desk, task_id).state, span(desk, task_id)) == (State.SCHEDULED, None)
    assert send(desk, "e1") == 0, "it came before its time"
    assert waits(desk, 9, 10)
    assert span(desk, task_id) == (at(9, 10), at(9, 30))


def test_an_undone_move_waits_as_before(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    undo = desk.scheduler.reschedule(task_id, when="at 9:10").undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert waits(desk, 9, 1)
    assert span(desk, task_id) == (at(9), at(9, 20))


def test_a_moved_occurrence_that_had_its_event_keeps_it(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    send(desk, "e1")
    desk.scheduler.reschedule(task_id, when="at 9:10")
    assert desk.start(9, 5) == []
    assert starts(desk, 9, 10) == [at(9, 10)]


def test_a_snooze_of_an_occurrence_that_waits_puts_its_wait_off(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    desk.scheduler.act(task_id, "snooze", minutes=10)
    assert not waits(desk, 9, 9)
    assert waits(desk, 9, 10)


@on_each_database
def test_another_rule_lets_an_occurrence_wait_from_its_new_time(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    desk.scheduler.reschedule(task_id, repeat="every hour at :30")
    assert span(desk, task_id) is None
    assert waits(desk, 9, 30)
    assert span(desk, task_id) == (at(9, 30), at(9, 50))


def test_run_now_runs_next_to_an_occurrence_that_waits_and_waits_for_nothing(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    desk.scheduler.act(task_id, "run_now")
    [claim] = desk.start(9)
    assert not claim.run.current
    desk.end([claim])
    assert current(desk, task_id).state is State.WAITING
    assert send(desk, "e1") == 1


def test_run_now_of_an_ended_series_waits_for_nothing(desk: Desk) -> None:
    task_id = report(desk, max_runs=1)
    assert waits(desk, 9)
    too_late(desk, 9, 20)
    desk.scheduler.act(task_id, "run_now")
    assert len(desk.start(9, 21)) == 1


def test_a_call_of_its_fire_address_ends_the_wait_of_an_occurrence_and_else_starts_a_side_run(desk: Desk) -> None:
    task_id = report(desk)
    made = desk.scheduler.addresses.make(task_id)
    address = desk.scheduler.addresses.find(made.path.rpartition("/")[2])
    desk.scheduler.addresses.fire(address, {"n": 1})
    [claim] = desk.start(8, 30)
    assert not claim.run.current
    desk.end([claim])
    assert waits(desk, 9)
    desk.scheduler.addresses.fire(address, {"n": 2})
    [claim] = desk.start(9)
    assert (claim.run.current, claim.run.scheduled_for) == (True, at(9))
    found = kept(desk, task_id)
    assert found
    assert found.signal
    assert found.signal.data == {"n": 2}


def test_a_hard_deadline_ends_the_wait_and_the_series_goes_on(desk: Desk) -> None:
    task_id = report(desk, deadline="10 min", deadline_type="hard")
    assert waits(desk, 9)
    desk.clock.at = at(9, 11)
    run_id = current(desk, task_id).id
    desk.expire()
    assert desk.runs(task_id) == {9: State.EXPIRED, 10: State.SCHEDULED}
    assert desk.store.signals.open_of(TENANT, [run_id]) == {}
    assert too_late(desk, 9, 20) == []


def test_a_failure_of_what_ran_is_replayed_without_a_wait(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    send(desk, "e1")
    desk.end(desk.start(9), Failed("no printer"))
    desk.scheduler.act(task_id, "run_now")
    assert [claim.run.current for claim in desk.start(9, 30)] == [False]


@pytest.mark.parametrize("waiting", [False, True])
def test_another_event_holds_for_the_run_that_waits_and_for_all_to_come(desk: Desk, waiting: bool) -> None:
    task_id = report(desk)
    assert waits(desk, 9 if waiting else 8, 0) is waiting
    desk.clock.at = at(9, 10) if waiting else at(8, 10)
    desk.scheduler.reschedule(task_id, wait_for={"event": "signed", "timeout": "30 min"})
    assert waits(desk, 9, 10)
    assert send(desk, "e1") == 0, "nothing waits for the old event"
    assert span(desk, task_id) == (at(9), at(9, 40)), "its timeout counts from the change"
    assert send(desk, "s1", "signed") == 1
    desk.end(desk.start(9, 10))
    assert waits(desk, 10)
    assert span(desk, task_id) == (at(10), at(10, 30))


@pytest.mark.parametrize("waiting", [False, True])
def test_an_undone_change_of_the_event_waits_for_the_old_one_again(desk: Desk, waiting: bool) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    undo = desk.scheduler.reschedule(task_id, wait_for={"event": "signed"}).undo
    assert (not waiting) or waits(desk, 9)
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert waits(desk, 9, 1)
    assert span(desk, task_id) == (at(9), at(9, 20))
    assert send(desk, "s1", "signed") == 0
    assert send(desk, "e1") == 1


@pytest.mark.parametrize("asked", [{"remove": ["wait_for"]}, {"wait_for": {}}])
def test_a_removed_event_lets_the_run_that_waits_go_and_all_to_come_run_at_their_times(
    desk: Desk, asked: dict[str, Any]
) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    undo = desk.scheduler.reschedule(task_id, **asked).undo
    assert send(desk, "e1") == 0
    desk.end(desk.start(9))
    assert starts(desk, 10) == [at(10)]
    with pytest.raises(Refused):
        desk.scheduler.act(task_id, "undo", undo=undo)


def test_an_undone_removal_of_the_event_waits_again(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    undo = desk.scheduler.reschedule(task_id, remove=["wait_for"]).undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert waits(desk, 9, 1)
    assert span(desk, task_id) == (at(9), at(9, 20))


def test_a_recurring_task_waits_from_its_next_run_on_once_that_is_asked_for(desk: Desk) -> None:
    task_id = desk.hourly()
    claims = desk.start(9)
    desk.scheduler.reschedule(task_id, wait_for={"event": "ready"})
    desk.end_anew(claims, Done("imported"))
    assert waits(desk, 10)


@on_each_database
def test_a_one_shot_gets_a_rule_and_an_event_for_each_run_in_one_call(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Report", when="at 9:00").record.task.id
    desk.scheduler.reschedule(task_id, repeat="every hour at :00", wait_for={"event": "ready"})
    assert waits(desk, 9)


def test_the_last_run_of_a_series_waits_also_once_its_rule_is_removed(desk: Desk) -> None:
    task_id = report(desk)
    desk.scheduler.reschedule(task_id, repeat="never")
    assert waits(desk, 9)
    assert send(desk, "e1") == 1
    desk.end(desk.start(9))
    assert desk.runs(task_id) == {9: State.SUCCEEDED}


def test_run_now_of_a_last_run_that_waits_starts_it(desk: Desk) -> None:
    task_id = report(desk)
    desk.scheduler.reschedule(task_id, repeat="never")
    assert waits(desk, 9)
    desk.scheduler.act(task_id, "run_now")
    assert len(desk.start(9, 1)) == 1


def test_a_one_shot_that_waits_and_recurs_from_now_on_can_be_let_go(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Report", when="at 9:00", wait_for={"event": "ready"}).record.task.id
    desk.scheduler.reschedule(task_id, repeat="every hour at :00")
    with pytest.raises(DuetimeError, match="cannot be changed"):
        desk.scheduler.reschedule(task_id, wait_for={"event": "other"})
    desk.scheduler.reschedule(task_id, remove=["wait_for"])
    assert starts(desk, 9) == [at(9)]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"repeat_policy": {"overlap": "allow_all"}}, "waits for each run, one at a time"),
        ({"wait_for": {"event": "ready", "or_when": True}}, "starts each run at its time"),
    ],
)
def test_a_wait_that_a_series_cannot_have_is_refused_at_once_and_later(
    desk: Desk, more: dict[str, Any], said: str
) -> None:
    with pytest.raises(DuetimeError, match=said):
        desk.scheduler.schedule("Report", **{"repeat": "every hour at :00", "wait_for": {"event": "ready"}, **more})
    task_id = report(desk)
    with pytest.raises(DuetimeError, match=said):
        desk.scheduler.reschedule(task_id, **more)


@on_each_database
def test_two_processes_that_look_at_once_let_it_wait_once(desk: Desk) -> None:
    task_id = report(desk)
    desk.clock.at = at(9)
    for _ in range(2):
        assert desk.store.claims.make_ready(limit=9) == []
    assert len(told(desk, task_id, EventKind.WAIT_BEGAN)) == 1


def test_a_watcher_of_a_task_is_notified_when_it_begins_to_wait(desk: Desk) -> None:
    heard: list[str] = []
    desk.store.commits.listen(heard.extend)
    task_id = report(desk)
    assert waits(desk, 9)
    assert heard == [task_id]


def test_a_run_for_whose_event_too_many_wait_fails_and_the_series_goes_on(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_room, "check", full)
    task_id = report(desk)
    assert desk.start(9) == []
    assert desk.runs(task_id) == {9: State.FAILED, 10: State.SCHEDULED}
    assert [message.text for message in desk.scheduler.inbox.unread()] == ["it did not run: too many wait for ready"]


def full(_connection: object, _tenant: str, name: str) -> None:
    raise Refused(f"too many wait for {name}")


@on_each_database
def test_a_wait_that_did_not_begin_before_a_crash_begins_at_the_next_look(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = report(desk)
    desk.clock.at = at(9)

    def killed(*_args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(due_waits, "begin", killed)
        with pytest.raises(KeyboardInterrupt):
            desk.store.claims.make_ready(limit=9)
    assert current(desk, task_id).state is State.SCHEDULED
    assert waits(desk, 9, 1)
    assert span(desk, task_id) == (at(9), at(9, 21))


@on_each_database
def test_runs_that_are_ready_are_queued_though_a_wait_cannot_begin(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """No later look finds a run that is ready: only the repair of the queue does, half a minute later."""
    waiting = report(desk)
    desk.scheduler.schedule("Plain", when=at(9).isoformat())
    desk.clock.at = at(9)
    queue = MemoryQueue(lambda: desk.clock.at.timestamp() * 1000)
    dispatcher = Dispatcher(desk.store, queue)

    def away(*_args: object) -> None:
        raise StoreUnavailable("The database cannot be reached.")

    with monkeypatch.context() as patched:
        patched.setattr(due_waits, "begin", away)
        with pytest.raises(StoreUnavailable):
            dispatcher.step()
    assert len(queue.take("w", 9, 60_000).run_ids) == 1
    dispatcher.step()
    assert current(desk, waiting).state is State.WAITING


def test_a_run_that_is_not_due_any_more_when_its_wait_begins_waits_later(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = report(desk)
    original = due_waits.begin

    def before_its_time(connection: Connection, run_ids: Sequence[str], now: datetime, until: datetime) -> None:
        original(connection, run_ids, now - timedelta(minutes=1), until - timedelta(minutes=1))

    desk.clock.at = at(9)
    with monkeypatch.context() as patched:
        patched.setattr(due_waits, "begin", before_its_time)
        assert desk.store.claims.make_ready(limit=9) == []
    assert current(desk, task_id).state is State.SCHEDULED, "it is not due at that time"
    assert waits(desk, 9)


def test_the_repair_of_overlooked_ends_leaves_a_waiting_run_alone(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    assert desk.store.dependencies.repair(limit=9) == 0
    assert current(desk, task_id).state is State.WAITING


@on_each_database
def test_waits_are_deleted_with_their_runs(desk: Desk) -> None:
    report(desk)
    for hour in (9, 10):
        assert waits(desk, hour)
        send(desk, f"e{hour}")
        desk.end(desk.start(hour))
    assert waits(desk, 11)
    desk.scheduler.inbox_changes.mark_read()
    desk.clock.forward(days=91)
    sweep = Sweep(desk.store, RetentionPolicy((RetentionRule(RetentionKind.RUNS, timedelta(days=90)),)))
    assert list(sweep.run())
    assert sweep.deleted == Counter(runs=1, attempts=1, inbox=1, signal_waits=1), "the last run that ended stays"


@on_each_database
@pytest.mark.parametrize("first", ["wait", "signal"])
def test_a_wait_that_begins_and_an_event_at_the_same_moment_meet(
    url: str, desk: Desk, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each runs on a connection of its own; the first has written, and commits when the second has come as far."""
    task_id = report(desk)
    desk.clock.at = at(9)
    reached, go_on = threading.Event(), threading.Event()
    place, name = (new_waits, "store") if first == "wait" else (send_signal, "_closed")
    original = getattr(place, name)

    def pausing(*given: Any) -> Any:
        done = original(*given)
        reached.set()
        assert go_on.wait(20)
        return done

    monkeypatch.setattr(place, name, pausing)
    other = open_store(url, clock=desk.clock, synchronous="OFF")
    calls: dict[str, Callable[[], object]] = {
        "wait": lambda: desk.store.claims.make_ready(limit=9),
        "signal": lambda: other.signals.send(TENANT, ReceivedSignal("ready", "e1"), actor="bob"),
    }
    threads = [threading.Thread(target=calls[which]) for which in sorted(calls, key=lambda which: which != first)]
    threads[0].start()
    assert reached.wait(20)
    threads[1].start()
    threads[1].join(0.2)
    go_on.set()
    for thread in threads:
        thread.join(20)
    other.close()
    run = current(desk, task_id)
    assert (run.state, run.first_ready_at) == (State.SCHEDULED, at(9))
    assert starts(desk, 9) == [at(9)]


def test_a_run_that_is_ready_waits_once_an_event_is_asked_for(desk: Desk) -> None:
    task_id = desk.hourly()
    desk.clock.at = at(9)
    [ready] = desk.store.claims.make_ready(limit=9)
    recalled: list[str] = []
    planner = Planner(Handlers.load(entry_points=False), "UTC")
    Scheduler(desk.store, planner, notices=ChangeNotices(recall=recalled.extend)).reschedule(
        task_id, wait_for={"event": "ready"}
    )
    assert recalled == [ready.run_id], "it leaves the queue"
    assert waits(desk, 9, 1)
    assert span(desk, task_id) == (at(9), at(9) + timedelta(days=30))


def test_overlapping_runs_get_no_event_for_each_of_them(desk: Desk) -> None:
    task_id = desk.hourly(overlap="allow_all")
    with pytest.raises(DuetimeError, match="waits for each run, one at a time"):
        desk.scheduler.reschedule(task_id, wait_for={"event": "ready"})


def test_a_run_that_a_new_rule_moves_keeps_the_jitter_of_its_task(desk: Desk) -> None:
    task_id = report(desk, repeat_policy={"jitter": "20 min"})
    assert waits(desk, 9, 20)
    desk.scheduler.reschedule(task_id, repeat="every hour at :30")
    run, task = current(desk, task_id), desk.scheduler.get(task_id).record.task
    assert run.wake_at == at(9, 30) + delay_of(task) != at(9, 30)


def test_an_event_that_cannot_be_read_fails_the_run_and_the_series_goes_on(desk: Desk) -> None:
    task_id = report(desk)
    broken = update(tasks).where(tasks.c.id == task_id).values(asks={"event": {"any": 5}})
    desk.store._database.write(lambda connection: connection.execute(broken))
    assert desk.scheduler.get(task_id).repeat_notes == ()
    assert desk.start(9) == []
    assert desk.runs(task_id) == {9: State.FAILED, 10: State.SCHEDULED}
    assert [each.text for each in desk.scheduler.inbox.unread()] == ["it did not run: what it waits for cannot be read"]


@pytest.mark.parametrize(("verb", "to"), [("cancel", None), ("move", "at 9:30")])
def test_a_change_of_many_tasks_ends_the_wait_and_its_undo_waits_until_the_same_time(
    desk: Desk, verb: Literal["cancel", "move"], to: str | None
) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    done = desk.scheduler.bulk.change(verb, [task_id], to=to)
    assert (current(desk, task_id).state is State.WAITING, span(desk, task_id)) == (False, None)
    desk.clock.at = at(9, 1)
    desk.scheduler.bulk.change("undo", undo=done.undo)
    assert waits(desk, 9, 2)
    assert span(desk, task_id) == (at(9), at(9, 20))


@on_each_database
def test_a_task_follows_from_an_occurrence_that_expires(desk: Desk) -> None:
    look = {"action": "reminder", "payload": {"message": "No report came"}}
    task_id = report(desk, on_failure={"run": look})
    assert waits(desk, 9)
    too_late(desk, 9, 20)
    [made] = [each for each in desk.scheduler.tasks.list().views if each.record.task.id != task_id]
    assert made.record.task.payload == look["payload"]


def test_an_undone_move_keeps_the_event_also_of_an_occurrence_that_was_skipped_once_and_came_back(desk: Desk) -> None:
    task_id = report(desk)
    assert waits(desk, 9)
    undo = desk.scheduler.act(task_id, "skip_next").undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert waits(desk, 9, 1)
    send(desk, "e1")
    undo = desk.scheduler.reschedule(task_id, when="at 9:10").undo
    desk.scheduler.act(task_id, "undo", undo=undo)
    assert starts(desk, 9, 1) == [at(9)]


@pytest.mark.parametrize("asked", [{"remove": ["wait_for"]}, {"wait_for": {"event": "signed"}}])
def test_the_event_of_a_series_that_has_ended_stays_unless_it_goes_on(desk: Desk, asked: dict[str, Any]) -> None:
    task_id = report(desk, max_runs=1)
    assert waits(desk, 9)
    too_late(desk, 9, 20)
    with pytest.raises(Refused, match="has already ended"):
        desk.scheduler.reschedule(task_id, **asked)
    desk.scheduler.reschedule(task_id, when="at 10:00", **asked)
    assert desk.start(9, 59) == []
    assert waits(desk, 10) is True if "wait_for" in asked else len(desk.start(10)) == 1

"""A recurring task from its first occurrence to its last: what is changed on the way, and undone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.changes.reschedule import NOTHING_CHANGED
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry
from duetime.scheduler.rules.settlement import refresh, settle
from duetime.scheduler.run_records import Claim, Start, Verdict
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskView

from tests.builders import LEASE, Clock
from tests.contracts.store.databases import on_each_database

MORNING = datetime(2026, 11, 23, 8, tzinfo=UTC)  # a Monday
OPEN = (State.SCHEDULED, State.READY, State.RUNNING)


@dataclass(frozen=True)
class Desk:
    """A scheduler in UTC over a real store, and a hand that runs what is due."""

    scheduler: Scheduler
    store: Store
    clock: Clock

    def schedule(self, **arguments: object) -> str:
        return self.scheduler.schedule("Take the pill", **arguments).record.task.id  # type: ignore[arg-type] # each test's own

    def start(self) -> list[Claim]:
        ready = [Start(run.run_id) for run in self.store.claims.make_ready(limit=9)]
        return self.store.claims.start(ready, worker="w", epoch=None, lease=LEASE)

    def settle(self, claim: Claim, outcome: Outcome) -> Verdict:
        (verdict,) = self.store.claims.settle([settle(claim, outcome, now=self.clock(), jitter=0.0)])
        return verdict

    def end(self, claims: list[Claim], outcome: Outcome) -> None:
        assert claims, "no run to end"
        settled = [settle(claim, outcome, now=self.clock(), jitter=0.0) for claim in claims]
        assert set(self.store.claims.settle(settled)) == {Verdict.SETTLED}

    def run(self, at: datetime, outcome: Outcome = Done("taken")) -> int:  # noqa: B008 - a frozen value
        """Run what is due at a time; returns how many runs that were."""
        self.clock.at = at
        if claims := self.start():
            self.end(claims, outcome)
        return len(claims)

    def get(self, task_id: str) -> TaskView:
        return self.scheduler.get(task_id)


def day(number: int, hour: int = 9, minute: int = 0) -> datetime:
    """Return a time of the nth day, the first being the Monday."""
    return datetime(2026, 11, 22 + number, hour, minute, tzinfo=UTC)


@pytest.fixture
def target(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", channels=Channels())
    return Desk(Scheduler(store, planner), store, clock)


# -- undo


def test_undo_brings_back_an_occurrence_and_a_snooze_to_the_same_time(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    target.run(day(1))
    target.scheduler.act(task_id, "snooze", until="tomorrow 9am")
    cancelled = target.scheduler.cancel(task_id)
    back = target.scheduler.act(task_id, "undo", undo=cancelled.undo).record
    assert [run.scheduled_for for run in (back.run, *back.side_runs)] == [day(2), day(2)]
    assert target.run(day(2)) == 2


def test_undo_brings_back_what_this_cancel_took_and_no_snooze_that_another_had_replaced(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    target.run(day(1))
    target.scheduler.act(task_id, "snooze", minutes=10)
    target.scheduler.act(task_id, "snooze", minutes=30)
    cancelled = target.scheduler.cancel(task_id)
    back = target.scheduler.act(task_id, "undo", undo=cancelled.undo).record
    assert [run.wake_at for run in back.side_runs] == [day(1, 9, 40)]


# -- how often at most


def used_up(target: Desk) -> str:
    """Return a task that has run as often as it may."""
    task_id = target.schedule(repeat="every day at 9:00", max_runs=2)
    assert [target.run(day(1)), target.run(day(2)), target.run(day(3))] == [1, 1, 0]
    return task_id


@pytest.mark.parametrize("until", ["never", "2026-12-24", None])
def test_a_task_that_has_used_up_its_runs_gets_no_more_of_them_by_another_rule(target: Desk, until: str | None) -> None:
    task_id = used_up(target)
    with pytest.raises(Refused, match=r"has used up its 2 runs\. Give max_runs of 3 or more in the same call"):
        target.scheduler.reschedule(task_id, repeat="every day at 10:00", until=until)


@on_each_database
def test_a_series_that_starts_again_after_its_end_still_runs_no_more_often_than_it_may(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00", max_runs=3, until="2026-11-24")
    assert [target.run(day(1)), target.run(day(2)), target.run(day(3))] == [1, 1, 0]
    again = target.scheduler.reschedule(task_id, repeat="every day at 10:00", until="never")
    assert [seen.instant for seen in again.upcoming] == [day(3, 10)]
    assert [target.run(day(3, 10)), target.run(day(4, 10))] == [1, 0]


def test_a_repeat_after_the_last_run_leaves_no_room_for_another(target: Desk) -> None:
    task_id = used_up(target)
    target.scheduler.act(task_id, "snooze", until="friday 9am")
    with pytest.raises(Refused, match="the last occurrence"):
        target.scheduler.act(task_id, "skip_next")
    assert [target.run(day(5)), target.run(day(6))] == [1, 0]


@on_each_database
@pytest.mark.parametrize("more", [{"max_runs": 4}, {"remove": ["max_runs"]}])
def test_a_series_that_has_used_up_its_runs_goes_on_when_it_may_have_more(target: Desk, more: Any) -> None:
    task_id = used_up(target)
    longer = target.scheduler.reschedule(task_id, **more)
    assert (longer.record.run.state, longer.record.run.scheduled_for, longer.record.run.number) == (
        State.SCHEDULED,
        day(4),
        3,
    )
    assert longer.warnings == ("the series goes on: it next runs Thu 26 Nov 2026 09:00 UTC",)
    goes_on = "remove" in more
    assert [target.run(day(4)), target.run(day(5)), target.run(day(6))] == [1, 1, int(goes_on)]


def test_undo_ends_a_series_again_that_was_given_more_runs(target: Desk) -> None:
    task_id = used_up(target)
    ended_at = target.get(task_id).record
    longer = target.scheduler.reschedule(task_id, max_runs=4)
    back = target.scheduler.act(task_id, "undo", undo=longer.undo).record
    assert (back.task.max_runs, back.run.id, back.run.state) == (2, ended_at.run.id, State.SUCCEEDED)
    assert target.run(day(8)) == 0


@on_each_database
@pytest.mark.parametrize("fewer", [1, 2])
def test_a_series_that_has_used_up_its_runs_stays_ended_unless_it_may_have_more(target: Desk, fewer: int) -> None:
    task_id = used_up(target)
    if fewer == 2:
        assert target.scheduler.reschedule(task_id, max_runs=2).warnings == (NOTHING_CHANGED,)
    else:
        with pytest.raises(Refused, match=r"max_runs: .* has had 2 runs already\. Give max_runs of 3 or more"):
            target.scheduler.reschedule(task_id, max_runs=fewer)
    target.scheduler.reschedule(task_id, labels=["x"], title="Take another pill")
    assert target.get(task_id).record.run.state is State.SUCCEEDED
    assert target.run(day(8)) == 0


@on_each_database
def test_more_runs_and_another_rule_are_given_in_one_call(target: Desk) -> None:
    task_id = used_up(target)
    target.scheduler.reschedule(task_id, repeat="every day at 10:00", max_runs=3)
    assert [target.run(day(3, 10)), target.run(day(4, 10))] == [1, 0]


@on_each_database
def test_more_runs_do_not_outlast_the_end_of_the_series_unless_that_is_later_too(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00", max_runs=2, until="2026-11-24")
    assert [target.run(day(1)), target.run(day(2)), target.run(day(3))] == [1, 1, 0]
    with pytest.raises(InvalidArgument, match=r"max_runs: the series ended Tue 24 Nov 2026 23:59.*until='never'"):
        target.scheduler.reschedule(task_id, max_runs=3)
    again = target.scheduler.reschedule(task_id, max_runs=3, until="never").record
    assert (again.run.scheduled_for, again.task.until) == (day(4), None)


def test_more_runs_do_not_bring_back_what_was_cancelled(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00", max_runs=2)
    target.scheduler.cancel(task_id)
    with pytest.raises(Refused, match=r"max_runs: .* was cancelled"):
        target.scheduler.reschedule(task_id, max_runs=3)


def test_a_series_may_have_fewer_runs_but_no_fewer_than_it_comes_to_with_the_next_one(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    assert [target.run(day(1)), target.run(day(2))] == [1, 1]
    with pytest.raises(InvalidArgument, match=r"max_runs: its next run, Wed .*, is number 3\. Accepted: 3 or more"):
        target.scheduler.reschedule(task_id, max_runs=2)
    target.scheduler.reschedule(task_id, max_runs=3)
    assert [target.run(day(3)), target.run(day(4))] == [1, 0]


def test_the_number_of_runs_of_a_series_changes_while_one_runs(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    target.clock.at = day(1)
    (claim,) = target.start()
    target.scheduler.reschedule(task_id, max_runs=1, deliver_to=["inbox"])
    assert target.settle(claim, Done("taken")) is Verdict.STALE
    again = refresh(claim, target.store.tasks.get("local", task_id))
    assert target.settle(again, Done("taken")) is Verdict.SETTLED
    assert target.run(day(2)) == 0


# -- the end of a series


def ended(target: Desk) -> str:
    """Return a task whose series is over on the second day; it is the third."""
    task_id = target.schedule(repeat="every day at 9:00", until="2026-11-24")
    assert [target.run(day(1)), target.run(day(2)), target.run(day(3))] == [1, 1, 0]
    return task_id


@on_each_database
@pytest.mark.parametrize("until", ["never", "2026-12-24"])
def test_a_later_end_lets_a_series_that_is_over_go_on_and_says_when(target: Desk, until: str) -> None:
    task_id = ended(target)
    later = target.scheduler.reschedule(task_id, until=until)
    assert (later.record.run.state, later.record.run.scheduled_for) == (State.SCHEDULED, day(4))
    assert later.warnings == ("the series goes on: it next runs Thu 26 Nov 2026 09:00 UTC",)
    assert (later.record.run.number, target.run(day(4))) == (3, 1)
    newest = target.scheduler.past.events(EventFilter(task_id=task_id)).events
    assert EventKind.RESCHEDULED in {event.kind for event in newest}


def test_a_later_end_that_is_before_the_next_occurrence_is_refused_with_one_that_is_not(target: Desk) -> None:
    task_id = ended(target)
    with pytest.raises(InvalidArgument, match=r"until: .*next occurrence.*Thu 26 Nov 2026 09:00.*2026-11-26"):
        target.scheduler.reschedule(task_id, until="2026-11-25 20:00")


def test_a_later_end_gives_a_task_that_has_used_up_its_runs_no_more(target: Desk) -> None:
    task_id = used_up(target)
    with pytest.raises(Refused, match=r"until: .* has used up its 2 runs\. Give max_runs of 3"):
        target.scheduler.reschedule(task_id, until="2026-12-24")


def test_a_later_end_does_not_outlast_that_of_the_rule_itself(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00, 2 times")
    assert [target.run(day(1)), target.run(day(2)), target.run(day(3))] == [1, 1, 0]
    with pytest.raises(Refused, match=r"until: the rule of .* has no further occurrence. Give it a new recurrence"):
        target.scheduler.reschedule(task_id, until="2026-12-24")


def test_a_later_end_does_not_bring_back_what_was_cancelled(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    target.scheduler.cancel(task_id)
    with pytest.raises(Refused, match=r"until: .* was cancelled"):
        target.scheduler.reschedule(task_id, until="2026-12-24")


# -- cancelled while it ran


def cancelled_while_it_ran(target: Desk) -> str:
    """Return a recurring task whose handler came to its end although it was asked to stop."""
    task_id = target.schedule(repeat="every day at 9:00")
    target.clock.at = day(1)
    claims = target.start()
    target.scheduler.cancel(task_id)
    record = target.get(task_id).record
    target.end([Claim(record.run, record.task, claim.worker) for claim in claims], Done("taken"))
    assert target.get(task_id).record.run.state is State.SUCCEEDED
    return task_id


@on_each_database
def test_a_recurrence_that_was_cancelled_while_it_ran_runs_once_more_when_a_time_is_given(target: Desk) -> None:
    task_id = cancelled_while_it_ran(target)
    again = target.scheduler.reschedule(task_id, when="today 10:00")
    assert (again.record.task.repeat, again.upcoming) == (None, ())
    assert [target.run(day(1, 10)), target.run(day(2))] == [1, 0]


@pytest.mark.parametrize("change", [{"repeat": "every day at 10:00"}, {"timezone": "Asia/Tokyo"}, {"until": "never"}])
def test_a_recurrence_that_was_cancelled_while_it_ran_is_not_started_again(
    target: Desk, change: dict[str, str]
) -> None:
    task_id = cancelled_while_it_ran(target)
    with pytest.raises(Refused, match=r"was cancelled\. Schedule a new task"):
        target.scheduler.reschedule(task_id, **change)  # type: ignore[arg-type] # each case gives arguments of its own


def test_no_rule_is_given_to_a_run_that_is_asked_to_stop(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    target.clock.at = day(1)
    target.start()
    target.scheduler.cancel(task_id)
    with pytest.raises(Refused, match=r"repeat: .* was cancelled\. Schedule a new task"):
        target.scheduler.reschedule(task_id, repeat="every day at 10:00")


@pytest.mark.parametrize("repeat", ["every day at 9:00", None])
@pytest.mark.parametrize("beside", [False, True])
def test_a_run_that_fails_after_a_requested_stop_is_cancelled(
    target: Desk, repeat: str | None, *, beside: bool
) -> None:
    task_id = target.schedule(repeat=repeat, when=None if repeat else day(1))
    target.clock.at = day(1) if not beside else MORNING
    if beside:
        target.scheduler.act(task_id, "run_now")
    (claim,) = target.start()
    target.scheduler.cancel(task_id)
    assert target.settle(claim, Failed("interrupted")) is Verdict.STALE
    again = refresh(claim, target.store.tasks.get("local", task_id))
    assert target.settle(again, Failed("interrupted")) is Verdict.SETTLED
    newest = target.scheduler.past.events(EventFilter(task_id=task_id)).events[0]
    assert (newest.run_id, newest.to_state) == (claim.run.id, State.CANCELLED)
    assert target.scheduler.letters.page() == ([], None)


# -- what was snoozed, when its series has ended


def snoozed_beyond_its_series(target: Desk) -> str:
    """Return a task whose last occurrence has run, while an outcome before it was put off until the fifth day."""
    task_id = target.schedule(repeat="every day at 9:00", max_runs=2)
    target.run(day(1))
    target.scheduler.act(task_id, "snooze", until="friday 9am")
    assert target.run(day(2)) == 1
    return task_id


@on_each_database
def test_a_snoozed_run_is_the_tasks_current_run_once_its_series_has_ended(target: Desk) -> None:
    task_id = snoozed_beyond_its_series(target)
    (shown,) = target.scheduler.tasks.list(TaskFilter(states=OPEN)).views
    assert (shown.record.run.state, shown.record.run.wake_at, shown.record.side_runs) == (State.SCHEDULED, day(5), ())
    assert [target.run(day(5)), target.run(day(6))] == [1, 0]
    assert target.get(task_id).record.run.state is State.SUCCEEDED


def test_a_snoozed_run_can_be_cancelled_once_its_series_has_ended(target: Desk) -> None:
    task_id = snoozed_beyond_its_series(target)
    cancelled = target.scheduler.cancel(task_id)
    assert (cancelled.record.run.state, target.run(day(5))) == (State.CANCELLED, 0)


def test_a_snoozed_run_stays_in_sight_when_its_task_recurs_no_more(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    target.run(day(1))
    target.scheduler.act(task_id, "snooze", until="friday 9am")
    once = target.scheduler.reschedule(task_id, repeat="never")
    assert once.warnings == ("it also runs Fri 27 Nov 2026 09:00",)
    assert target.run(day(2)) == 1
    (shown,) = target.scheduler.tasks.list(TaskFilter(states=OPEN)).views
    assert shown.record.run.wake_at == day(5)
    target.scheduler.cancel(task_id)
    assert target.run(day(5)) == 0


# -- pause


def test_a_run_that_waits_for_its_second_attempt_goes_on_after_a_pause(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    target.run(day(1), Retry("no answer"))
    target.clock.at = day(1, 9, 5)
    target.store.claims.make_ready(limit=9)
    target.scheduler.reschedule(task_id, pause=True)
    target.clock.at = day(1, 9, 10)
    resumed = target.scheduler.reschedule(task_id, pause=False).record
    assert (resumed.run.scheduled_for, resumed.run.state) == (day(1), State.SCHEDULED)
    assert target.run(day(1, 9, 10)) == 1
    assert [(a.number, a.outcome) for a in target.scheduler.past.attempts(task_id)] == [(1, "retry"), (2, "done")]


def test_a_run_that_never_started_is_passed_over_after_a_pause_with_a_word(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    target.clock.at = day(1)
    target.store.claims.make_ready(limit=9)
    target.scheduler.reschedule(task_id, pause=True)
    target.clock.at += timedelta(minutes=5)
    assert target.scheduler.reschedule(task_id, pause=False).record.run.scheduled_for == day(2)
    moves = [
        (event.kind, event.to_state) for event in target.scheduler.past.events(EventFilter(task_id=task_id)).events
    ]
    assert (EventKind.RESUMED, State.SKIPPED) in moves


@pytest.mark.parametrize("change", [{"skip_next": True}, {"repeat": "every day at 10:00"}, {"when": "today 10:00"}])
def test_a_run_between_two_attempts_is_the_same_whether_it_is_ready_or_not(
    target: Desk, change: dict[str, object]
) -> None:
    found = []
    for ready in (False, True):
        target.clock.at = MORNING
        task_id = target.schedule(repeat="every day at 9:00")
        target.run(day(1), Retry("no answer"))
        target.clock.at = day(1, 9, 5)
        if ready:
            target.store.claims.make_ready(limit=9)
        try:
            run = target.scheduler.reschedule(task_id, **change).record.run  # type: ignore[arg-type] # each case its own
            found.append(f"{run.scheduled_for} {run.slot} {run.wake_at if 'when' in change else ''}")
        except Refused as refused:
            found.append(str(refused).replace(task_id, "it"))
        target.scheduler.cancel(task_id)
    assert found[0] == found[1]


# -- twins


def test_a_task_like_the_next_occurrence_is_told_of_it(target: Desk) -> None:
    task_id = target.schedule(repeat="every day at 9:00")
    target.run(day(1))
    made = target.scheduler.schedule("Take the PILL", when=day(2))
    assert [warning for warning in made.warnings if task_id in warning]


def test_a_task_like_one_that_was_renamed_moved_or_brought_back_is_told_of_it(target: Desk) -> None:
    task_id = target.schedule(when=day(2))
    target.scheduler.reschedule(task_id, title="Take two pills", when=day(3))
    cancelled = target.scheduler.cancel(task_id)
    target.scheduler.act(task_id, "undo", undo=cancelled.undo)
    like, unlike = (target.scheduler.schedule(title, when=day(3)) for title in ("Take two pills", "Take the pill"))
    assert [warning for warning in like.warnings if task_id in warning]
    assert unlike.warnings == ()

"""When a run is due: answers, cards, lists and filters agree, and a snooze counts from it.

A run that has begun is due when it goes on. A run that waited past its time keeps that.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Outcome, Retry, Wait
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskView
from duetime.widgets.payload import list_payload, task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock
from tests.contracts.store.desk import MORNING, Desk, at

GOES_ON: dict[str, Outcome] = {
    "suspended": Wait(until=at(9, 20)),
    "retrying": Retry("the network is down", after=timedelta(minutes=20)),
}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), store, clock)


def listed(desk: Desk, after: datetime, before: datetime) -> dict[str, str]:
    """Return the open tasks that a filter finds, each with its time in the list."""
    page = desk.scheduler.tasks.list(TaskFilter(after=after, before=before))
    return {row.id: row.when for row in list_payload(page).tasks if not row.expected}


def begun(desk: Desk, how: str, **more: Any) -> TaskView:
    """Schedule a task for 9:00 that goes on at 9:20."""
    task_id = desk.scheduler.schedule("Look at the parcel", when="today 9:00", **more).record.task.id
    desk.run(9, (9, 0), GOES_ON[how])
    return desk.scheduler.get(task_id)


@pytest.mark.parametrize("how", GOES_ON)
def test_a_run_that_has_begun_is_due_when_it_goes_on(desk: Desk, how: str) -> None:
    view = begun(desk, how)
    task_id, goes_on = view.record.task.id, utc(at(9, 20))
    assert (view.record.run.state.value, task_payload(view).when.utc) == (how, goes_on)
    assert "Its time is Mon 23 Nov 2026 09:20" in task_text(task_payload(view))
    assert listed(desk, at(9, 10), at(9, 30)) == {task_id: goes_on}
    assert task_id not in listed(desk, at(8, 50), at(9, 10))


@pytest.mark.parametrize("how", GOES_ON)
def test_a_snooze_of_a_run_that_has_begun_counts_from_the_time_that_is_shown(desk: Desk, how: str) -> None:
    view = begun(desk, how)
    desk.clock.at = at(9, 5)
    snoozed = task_payload(desk.scheduler.act(view.record.task.id, "snooze", minutes=10))
    assert snoozed.when.utc == utc(at(9, 30)), "ten minutes after 9:20, as the button says"


def test_a_second_snooze_of_an_outcome_counts_from_the_first_as_its_card_is_told(desk: Desk) -> None:
    task_id = desk.hourly()
    desk.run(9, (9, 1), Done())
    desk.clock.at = at(9, 5)
    assert task_payload(desk.scheduler.get(task_id)).snoozed_until is None
    first = task_payload(desk.scheduler.act(task_id, "snooze", minutes=10))
    assert first.snoozed_until == utc(at(9, 15))
    desk.clock.at = at(9, 7)
    again = desk.scheduler.act(task_id, "snooze", minutes=10)
    assert task_payload(again).snoozed_until == utc(at(9, 25))
    assert [run.wake_at for run in again.record.side_runs] == [at(9, 25)]


def test_a_snooze_of_a_series_that_has_begun_moves_its_next_step_and_not_the_outcome_before_it(desk: Desk) -> None:
    task_id = desk.hourly()
    desk.run(9, (9, 58), Done())
    desk.run(10, (10, 0), Wait(until=at(10, 20)))
    snoozed = desk.scheduler.act(task_id, "snooze", minutes=10)
    assert (task_payload(snoozed).when.utc, snoozed.record.side_runs) == (utc(at(10, 30)), ())


@pytest.mark.parametrize("how", GOES_ON)
def test_a_move_of_a_run_that_has_begun_is_found_at_its_new_time(desk: Desk, how: str) -> None:
    task_id = begun(desk, how).record.task.id
    to = at(11, 15) + timedelta(days=8)
    moved = task_payload(desk.scheduler.reschedule(task_id, when="2026-12-01 11:15"))
    assert (moved.when.utc, moved.when.text) == (utc(to), "Tue 1 Dec 2026 11:15")
    assert "Its time is Tue 1 Dec 2026 11:15" in task_text(moved)
    day = MORNING.replace(hour=0) + timedelta(days=8)
    assert listed(desk, day, day + timedelta(days=1)) == {task_id: utc(to)}
    assert task_id not in listed(desk, at(8), at(23))


def test_many_tasks_that_are_moved_say_when_they_go_on(desk: Desk) -> None:
    task_id = begun(desk, "suspended").record.task.id
    [outcome] = desk.scheduler.bulk.change("move", [task_id], to="2026-12-01 11:15").outcomes
    assert outcome.was == at(9, 20)


def test_an_approved_occurrence_keeps_its_time_in_answers_lists_and_recurrences(desk: Desk) -> None:
    view = desk.scheduler.schedule("Payroll", repeat="every hour at :00", approval="Pay?")
    task_id = view.record.task.id
    assert desk.start(9) == []
    desk.clock.at = at(10, 30)
    approved = task_payload(desk.scheduler.approve(task_id))
    assert (approved.state, approved.when.utc) == (State.SCHEDULED, utc(at(9)))
    assert approved.repeat is not None
    assert approved.repeat.next[0] == approved.when.local
    assert listed(desk, at(8, 50), at(9, 10)) == {task_id: utc(at(9))}
    assert listed(desk, at(10, 20), at(10, 40)) == {}
    desk.scheduler.reschedule(task_id, title="Wages")
    assert listed(desk, at(8, 50), at(9, 10)) == {task_id: utc(at(9))}
    [claim] = desk.start(10, 30)
    assert claim.run.scheduled_for == at(9), "it is late, and starts at once"

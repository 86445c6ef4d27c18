"""Notes about clocks that change are of the occurrences that a series still has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store

from tests.builders import Clock

ZONE = "America/St_Johns"
"""Clocks go forward on 14 March 2027, and back on 7 November."""


@pytest.fixture
def scheduler(store: Store, clock: Clock) -> Scheduler:
    clock.at = datetime(2026, 11, 28, 20, tzinfo=UTC)
    return Scheduler(store, Planner(Handlers.load(entry_points=False), ZONE, upstreams=store.dependencies.known))


def noted(scheduler: Scheduler, **ends: Any) -> bool:
    view = scheduler.schedule("Pill", repeat="daily at 2:15", when="2027-03-11", **ends)
    return any("clocks go forward" in text for text in view.repeat_notes)


def test_a_note_of_another_year_than_the_present_one_says_which(scheduler: Scheduler) -> None:
    view = scheduler.schedule("Pill", repeat="every 2 months", when="2026-12-01")
    assert "14 Mar 2027: clocks go forward" in view.repeat_notes


@pytest.mark.parametrize("ends", [{"max_runs": 2}, {"until": "2027-03-13"}, {"max_runs": 1}], ids=str)
def test_no_note_speaks_of_a_day_after_the_end_of_the_series(scheduler: Scheduler, ends: Any) -> None:
    assert not noted(scheduler, **ends)


@pytest.mark.parametrize("ends", [{}, {"max_runs": 5}, {"until": "2027-03-14"}], ids=str)
def test_a_change_of_the_clocks_before_the_end_is_noted(scheduler: Scheduler, ends: Any) -> None:
    assert noted(scheduler, **ends)


def test_a_change_of_the_clocks_during_the_pause_of_a_series_is_noted_up_to_its_next_occurrence(
    scheduler: Scheduler,
) -> None:
    task_id = scheduler.schedule("Pill", repeat="daily at 2:15", when="2027-03-11").record.task.id
    view = scheduler.reschedule(task_id, pause_until="2027-03-20 0:00")
    assert [f"{each.wall:%d %b}" for each in view.upcoming[:2]] == ["20 Mar", "21 Mar"]
    assert not [text for text in view.repeat_notes if "does not exist" in text]

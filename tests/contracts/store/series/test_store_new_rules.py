"""A new rule without `when`, and a series that moves by a length of time: when the next run comes."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskView

from tests.builders import Clock
from tests.contracts.store.desk import MORNING, Desk

MONDAY = MORNING.replace(hour=10)


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MONDAY
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def coming(view: TaskView, count: int = 2) -> list[str]:
    return [f"{each.wall:%d %b %H:%M}" for each in view.upcoming[:count]]


@pytest.mark.parametrize("first", [{"when": "tomorrow 17:00"}, {"when": "tomorrow", "repeat": "daily at 17:00"}])
@pytest.mark.parametrize(
    ("repeat", "times"),
    [
        ("every day", ["24 Nov 17:00", "25 Nov 17:00"]),
        ("every 3 days", ["24 Nov 17:00", "27 Nov 17:00"]),
        ("every day at 9:00", ["24 Nov 09:00", "25 Nov 09:00"]),
        ("every day at 18:00", ["24 Nov 18:00", "25 Nov 18:00"]),
        ("every 2 hours", ["24 Nov 17:00", "24 Nov 19:00"]),
        ("every 2 weeks on monday", ["30 Nov 17:00", "14 Dec 17:00"]),
        ("every monday at 9:00", ["30 Nov 09:00", "07 Dec 09:00"]),
    ],
)
def test_a_series_that_has_not_begun_begins_by_a_new_rule_no_earlier_than_on_its_day(
    desk: Desk, first: dict[str, str], repeat: str, times: list[str]
) -> None:
    task_id = desk.scheduler.schedule("Pill", **first).record.task.id  # type: ignore[arg-type] # words
    assert coming(desk.scheduler.reschedule(task_id, repeat=repeat)) == times


def test_a_series_that_has_run_goes_on_by_its_new_rule_at_once_and_says_so(desk: Desk) -> None:
    desk.clock.at = MORNING
    task_id = desk.scheduler.schedule("Report", repeat="every monday at 9:00").record.task.id
    desk.run(9, (9, 1))
    view = desk.scheduler.reschedule(task_id, repeat="every day at 9:00")
    assert coming(view) == ["24 Nov 09:00", "25 Nov 09:00"]
    assert "it now runs Tue 24 Nov 2026 09:00, before Mon 30 Nov 2026 09:00 when it was due" in " ".join(view.warnings)


@pytest.mark.parametrize("now", [10, 7])
def test_a_series_moves_by_as_much_as_its_next_occurrence_which_was_moved_by_itself(desk: Desk, now: int) -> None:
    desk.clock.at = MONDAY.replace(hour=7)
    task_id = desk.scheduler.schedule("Standup", repeat="daily at 9:00").record.task.id
    desk.scheduler.reschedule(task_id, when="today 11:00")
    desk.clock.at = MONDAY.replace(hour=now)
    view = desk.scheduler.reschedule(task_id, when="1 hour later", all_following=True)
    assert coming(view, 3) == ["23 Nov 12:00", "24 Nov 10:00", "25 Nov 10:00"]
    assert "its next run, moved by itself, moves just as far" in view.warnings
    assert desk.scheduler.get(task_id).repeat_text == "every day at 10:00"


def test_a_series_moves_to_a_time_of_day_with_its_next_occurrence_which_was_moved_by_itself(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Standup", repeat="daily at 9:00").record.task.id
    desk.scheduler.reschedule(task_id, when="tomorrow 11:00")
    view = desk.scheduler.reschedule(task_id, when="12:00", all_following=True)
    assert coming(view) == ["24 Nov 12:00", "25 Nov 12:00"]


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        ({"when": "1 hour later", "all_following": True}, "Fri 4 Dec 2026 18:00"),
        ({"when": "18:00", "all_following": True}, "Fri 4 Dec 2026 18:00"),
        ({"timezone": "America/New_York"}, "Fri 4 Dec 2026 17:00"),
    ],
)
def test_a_series_whose_new_time_comes_after_its_end_on_the_last_day_says_which_run_it_loses(
    desk: Desk, change: Any, lost: str
) -> None:
    task_id = desk.scheduler.schedule("Pill", repeat="every day at 17:00", until="2026-12-04 17:00").record.task.id
    view = desk.scheduler.reschedule(task_id, **change)
    [said] = [each for each in view.warnings if "does not run" in each]
    assert said.startswith(f"it does not run {lost}, since its end stays Fri 4 Dec 2026 1")
    argument = said.partition("until='")[2].partition("'")[0]
    assert desk.scheduler.reschedule(task_id, until=argument).record.task.until
    kept = desk.scheduler.get(task_id).record.task.until
    assert kept
    assert describe(kept, view.record.task.timezone) == lost


@pytest.mark.parametrize(
    "change",
    [
        {"when": "16:00", "all_following": True},
        {"timezone": "Asia/Tokyo"},
        {"when": "18:00", "all_following": True, "until": "2026-12-04 18:00"},
    ],
)
def test_a_series_that_keeps_its_last_run_says_nothing_of_its_end(desk: Desk, change: Any) -> None:
    task_id = desk.scheduler.schedule("Pill", repeat="every day at 17:00", until="2026-12-04 17:00").record.task.id
    view = desk.scheduler.reschedule(task_id, **change)
    assert not [each for each in view.warnings if "does not run" in each]

"""Occurrences that were skipped stay left out when the time of day, the zone or the rule of their series changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskView

from tests.builders import Clock
from tests.contracts.store.desk import Desk

DENVER = "America/Denver"
SUNDAY = datetime(2026, 3, 1, 12, tzinfo=ZoneInfo(DENVER))
"""A week before clocks go forward, on 8 March 2026."""


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = SUNDAY.astimezone(UTC)
    planner = Planner(Handlers.load(entry_points=False), DENVER, upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def skipped(desk: Desk, times: int, rule: str = "every day at 9:30") -> str:
    """Schedule a series and skip its first occurrences; return its id."""
    task_id = desk.scheduler.schedule("Standup", repeat=rule).record.task.id
    for _ in range(times):
        desk.scheduler.reschedule(task_id, skip_next=True)
    return task_id


def walls(view: TaskView, n: int = 2) -> list[str]:
    return [f"{occurrence.wall:%d %H:%M}" for occurrence in view.upcoming[:n]]


LATER: Any = {"when": "10:00", "all_following": True}
CHANGES: list[tuple[Any, list[str]]] = [
    (LATER, ["04 10:00", "05 10:00"]),
    ({"when": "8:15", "all_following": True}, ["04 08:15", "05 08:15"]),
    ({"repeat": "every day at 10:00"}, ["04 10:00", "05 10:00"]),
    ({"repeat": "every 2 hours from 8:00 to 18:00"}, ["04 08:00", "04 10:00"]),
    ({"repeat": "every monday and friday at 9:00"}, ["06 09:00", "09 09:00"]),
    ({"timezone": "Asia/Tokyo"}, ["04 09:30", "05 09:30"]),
    ({"repeat_policy": {"except": ["2026-03-05"]}}, ["04 09:30", "06 09:30"]),
]


@pytest.mark.parametrize(("change", "coming"), CHANGES, ids=str)
def test_a_skipped_occurrence_stays_left_out(desk: Desk, change: Any, coming: list[str]) -> None:
    task_id = skipped(desk, 2)
    assert walls(desk.scheduler.get(task_id)) == ["04 09:30", "05 09:30"]
    view = desk.scheduler.reschedule(task_id, **change)
    assert walls(view) == coming
    assert not [text for text in view.warnings if "skipped" in text or "no date given" in text]


def test_it_stays_left_out_through_one_change_after_another_and_their_undo(desk: Desk) -> None:
    task_id = skipped(desk, 2)
    first = desk.scheduler.reschedule(task_id, **LATER)
    second = desk.scheduler.reschedule(task_id, repeat="every day at 11:00")
    assert walls(second) == ["04 11:00", "05 11:00"]
    desk.scheduler.act(task_id, "undo", undo=second.undo)
    assert walls(desk.scheduler.get(task_id)) == walls(first) == ["04 10:00", "05 10:00"]


def test_days_are_skipped_by_their_wall_time_where_clocks_change(desk: Desk) -> None:
    task_id = skipped(desk, 7, "every day at 2:30")  # the last one skipped is that of Sunday the 8th, at 3:00
    assert walls(desk.scheduler.get(task_id), 1) == ["09 02:30"]
    assert walls(desk.scheduler.reschedule(task_id, repeat="every day at 23:30"), 1) == ["09 23:30"]
    assert walls(desk.scheduler.reschedule(task_id, repeat="every day at 0:15"), 1) == ["09 00:15"]


def test_hours_of_a_day_are_skipped_up_to_the_last_of_them(desk: Desk) -> None:
    task_id = skipped(desk, 2, "every hour at :00")  # 13:00 and 14:00
    assert walls(desk.scheduler.reschedule(task_id, repeat="every hour at :30")) == ["01 14:30", "01 15:30"]


def test_a_rule_with_days_that_were_not_skipped_begins_there_and_says_which_come_again(desk: Desk) -> None:
    task_id = skipped(desk, 1, "every thursday at 9:30")
    view = desk.scheduler.reschedule(task_id, repeat="every day at 9:30")
    assert walls(view) == ["02 09:30", "03 09:30"]
    [note] = [text for text in view.warnings if "skipped" in text]
    assert note == "it runs again on days that were skipped: Thu 5 Mar 2026 09:30; skip_next leaves out the next one"


def test_a_day_that_is_named_runs_again(desk: Desk) -> None:
    task_id = skipped(desk, 2)
    view = desk.scheduler.reschedule(task_id, when="tomorrow 10:00", all_following=True)
    assert walls(view) == ["02 10:00", "03 10:00"]
    assert [text for text in view.warnings if "days that were skipped: Mon 2 Mar 2026 10:00, Tue 3 Mar" in text]


def test_a_series_that_begins_later_has_skipped_nothing(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Standup", repeat="every day at 9:30", when="5 march 9:30").record.task.id
    assert walls(desk.scheduler.reschedule(task_id, timezone="Asia/Tokyo"), 1) == ["05 09:30"]


def test_an_occurrence_that_was_only_moved_was_not_skipped(desk: Desk) -> None:
    task_id = skipped(desk, 0)
    desk.scheduler.reschedule(task_id, when=desk.clock() + timedelta(days=1, hours=8))
    assert walls(desk.scheduler.reschedule(task_id, repeat="every day at 10:00"), 1) == ["02 10:00"]


def test_an_occurrence_moved_past_others_runs_once_under_a_new_rule(desk: Desk) -> None:
    task_id = skipped(desk, 0)
    desk.scheduler.reschedule(task_id, when=desk.clock() + timedelta(days=3))
    view = desk.scheduler.reschedule(task_id, repeat="every day at 10:00")
    assert walls(view) == ["03 10:00", "04 10:00"]
    assert [run.scheduled_for - desk.clock() for run in view.record.side_runs] == [timedelta(days=3)]

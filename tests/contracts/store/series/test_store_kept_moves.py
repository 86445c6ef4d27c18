"""An occurrence that was moved or snoozed stays so through calls that do not concern its time; others take it back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.changes.reschedule import NOTHING_CHANGED
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskView
from duetime.widgets.payload import task_words

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import Desk

BERLIN = "Europe/Berlin"
SATURDAY = datetime(2026, 11, 28, 22, tzinfo=ZoneInfo(BERLIN))
RULE = "daily at 9:00"


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = SATURDAY.astimezone(UTC)
    planner = Planner(Handlers.load(entry_points=False), BERLIN, upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def moved(desk: Desk, **arguments: Any) -> str:
    """Schedule a series and move its occurrence of Sunday to 15:00; return its id."""
    task_id = desk.scheduler.schedule("Standup", repeat=RULE, **arguments).record.task.id
    desk.scheduler.reschedule(task_id, when="sunday 15:00")
    return task_id


def walls(view: TaskView, n: int = 2) -> list[str]:
    return [f"{occurrence.wall:%d %H:%M}" for occurrence in view.upcoming[:n]]


OF_NO_TIME: list[Any] = [
    {"timezone": BERLIN},
    {"priority": "high", "timezone": BERLIN},
    {"title": "Stand-up", "timezone": BERLIN},
    {"repeat": RULE},
    {"repeat": "every day at 09:00", "timezone": BERLIN, "until": "2026-12-31"},
    {"repeat_policy": {"except": ["2026-12-25"]}},
    {"repeat_policy": {"except": ["2026-11-01"]}},
]


@pytest.mark.parametrize("change", OF_NO_TIME, ids=str)
def test_a_call_that_does_not_concern_its_time_leaves_a_moved_occurrence_where_it_is(desk: Desk, change: Any) -> None:
    view = desk.scheduler.reschedule(moved(desk), **change)
    assert walls(view) == ["29 15:00", "30 09:00"]
    assert not [text for text in view.warnings if "taken back" in text]


@on_each_database
@pytest.mark.parametrize("change", OF_NO_TIME, ids=str)
def test_it_stays_where_it_is_after_the_time_that_it_was_moved_from(desk: Desk, change: Any) -> None:
    task_id = moved(desk)
    desk.clock.at += timedelta(hours=13)
    assert walls(desk.scheduler.reschedule(task_id, **change)) == ["29 15:00", "30 09:00"]


def test_a_snoozed_occurrence_stays_snoozed(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Standup", repeat=RULE).record.task.id
    desk.scheduler.act(task_id, "snooze", minutes=30)
    assert walls(desk.scheduler.reschedule(task_id, timezone=BERLIN, labels=["team"])) == ["29 09:30", "30 09:00"]


@pytest.mark.parametrize("change", [{"timezone": BERLIN}, {"repeat": RULE}], ids=str)
def test_the_zone_and_the_rule_that_it_has_change_nothing(desk: Desk, change: Any) -> None:
    task_id = moved(desk)
    before = desk.scheduler.get(task_id).record
    view = desk.scheduler.reschedule(task_id, **change)
    assert (view.record.task, view.record.run, view.warnings) == (before.task, before.run, (NOTHING_CHANGED,))


def test_a_series_of_elapsed_time_does_not_restart_by_the_rule_that_it_has(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Poll", repeat="every 6 hours").record.task.id
    before = walls(desk.scheduler.get(task_id))
    desk.clock.at += timedelta(hours=1)
    assert walls(desk.scheduler.reschedule(task_id, repeat="every 6 hours")) == before


def test_a_day_that_is_no_longer_left_out_keeps_the_move_of_an_earlier_one(desk: Desk) -> None:
    task_id = moved(desk, repeat_policy={"except": ["2026-11-30", "2026-12-02"]})
    assert walls(desk.scheduler.reschedule(task_id, repeat_policy={"except": ["2026-12-02"]}), 3) == [
        "29 15:00",
        "30 09:00",
        "01 09:00",
    ]


@pytest.mark.parametrize(
    ("change", "coming"),
    [
        ({"timezone": "Asia/Tokyo"}, ["29 09:00", "30 09:00"]),
        ({"repeat": "daily at 10:00"}, ["29 10:00", "30 10:00"]),
        ({"repeat": RULE, "timezone": "Asia/Tokyo"}, ["29 09:00", "30 09:00"]),
        ({"repeat_policy": {"except": ["2026-11-29"]}}, ["30 09:00", "01 09:00"]),
        ({"when": "10:00", "all_following": True}, ["29 10:00", "30 10:00"]),
    ],
    ids=str,
)
def test_a_change_that_moves_the_series_says_which_move_it_takes_back(
    desk: Desk, change: Any, coming: list[str]
) -> None:
    view = desk.scheduler.reschedule(moved(desk), **change)
    assert walls(view) == coming
    [note] = [text for text in view.warnings if "taken back" in text]
    assert note == "the move of Sun 29 Nov 2026 09:00 to 15:00 is taken back"
    said = task_words(view).sentences or {}
    assert said[note] == {"kind": "move_undone", "at": "2026-11-29T08:00:00+00:00"}


def test_a_day_before_that_comes_again_takes_the_place_of_a_moved_one(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Standup", repeat=RULE, repeat_policy={"except": ["2026-11-29"]}).record.task.id
    desk.scheduler.reschedule(task_id, when="tuesday 8:00")
    view = desk.scheduler.reschedule(task_id, remove=["repeat_policy"])
    assert walls(view) == ["29 09:00", "30 09:00"]
    assert "the move of Mon 30 Nov 2026 09:00 to Tue 1 Dec 2026 08:00 is taken back" in view.warnings


@on_each_database
def test_no_move_is_taken_back_that_the_series_takes_over(desk: Desk) -> None:
    view = desk.scheduler.reschedule(moved(desk), when="15:00", all_following=True)
    assert walls(view) == ["29 15:00", "30 15:00"]
    assert not [text for text in view.warnings if "taken back" in text]

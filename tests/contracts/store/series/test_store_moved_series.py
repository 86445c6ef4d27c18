"""A whole series that moves to another time of day: it keeps its days, and the day on which it begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import Desk

BERLIN = "Europe/Berlin"
SATURDAY = datetime(2026, 11, 28, 22, tzinfo=ZoneInfo(BERLIN))


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = SATURDAY.astimezone(UTC)
    planner = Planner(Handlers.load(entry_points=False), BERLIN, upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def moved(desk: Desk, repeat: str, begin: str | None, when: str, *, after: timedelta = timedelta()) -> list[str]:
    """Schedule a series, move it as a whole `after` a while, and return the next two times."""
    task_id = desk.scheduler.schedule("Standup", repeat=repeat, when=begin).record.task.id
    desk.clock.at += after
    view = desk.scheduler.reschedule(task_id, when=when, all_following=True)
    assert not [text for text in view.warnings if "no date given" in text]
    return [f"{occurrence.wall:%d %b %H:%M}" for occurrence in view.upcoming[:2]]


@pytest.mark.parametrize(
    ("repeat", "begin", "when", "coming"),
    [
        ("every monday at 9:00", "2027-03-01", "10:00", ["01 Mar 10:00", "08 Mar 10:00"]),
        ("every monday at 9:00", "2027-02-28", "8:00", ["01 Mar 08:00", "08 Mar 08:00"]),
        ("daily at 9:00", "2027-03-01 9:00", "23:30", ["01 Mar 23:30", "02 Mar 23:30"]),
        ("every month on the 15th at 9:00", "2027-03-01", "10:00", ["15 Mar 10:00", "15 Apr 10:00"]),
        ("every day at 9:00 and 17:00", "2027-03-01", "8:00", ["01 Mar 08:00", "01 Mar 17:00"]),
    ],
)
def test_a_series_of_the_future_still_begins_on_its_day(
    desk: Desk, repeat: str, begin: str, when: str, coming: list[str]
) -> None:
    assert moved(desk, repeat, begin, when) == coming


@pytest.mark.parametrize(
    ("repeat", "coming"),
    [
        ("every 2 weeks on monday at 9:00", ["14 Dec 10:00", "28 Dec 10:00"]),
        ("every 3 days at 9:00", ["05 Dec 10:00", "08 Dec 10:00"]),
    ],
)
def test_every_second_week_stays_the_same_week(desk: Desk, repeat: str, coming: list[str]) -> None:
    begin = "2026-11-30" if "weeks" in repeat else "2026-12-05"
    assert moved(desk, repeat, begin, "10:00", after=timedelta(days=0 if "days" in repeat else 3)) == coming


@on_each_database
@pytest.mark.parametrize(
    ("repeat", "zone", "day", "coming"),
    [
        ("every day at 2:30", BERLIN, "2027-03-28", ["28 Mar 04:00", "29 Mar 04:00"]),
        ("every sunday at 2:30", BERLIN, "2027-03-28", ["28 Mar 04:00", "04 Apr 04:00"]),
        ("30 2 * * 0", BERLIN, "2027-03-28", ["28 Mar 04:00", "04 Apr 04:00"]),
        ("every day at 2:30 and 9:00", BERLIN, "2027-03-28", ["28 Mar 04:00", "28 Mar 09:00"]),
        ("every day at 2:30", "America/New_York", "2027-03-14", ["14 Mar 04:00", "15 Mar 04:00"]),
        ("every day at 2:15", "Australia/Lord_Howe", "2027-10-03", ["03 Oct 04:00", "04 Oct 04:00"]),
    ],
)
@pytest.mark.parametrize("moves_before", [False, True])
def test_an_occurrence_that_the_clocks_shifted_moves_its_series_by_the_time_of_its_rule(
    desk: Desk, repeat: str, zone: str, day: str, coming: list[str], *, moves_before: bool
) -> None:
    task_id = desk.scheduler.schedule("Standup", repeat=repeat, when=day, timezone=zone).record.task.id
    if moves_before:
        desk.scheduler.bulk.change("move", [task_id], to="10 minutes later")
    view = desk.scheduler.reschedule(task_id, when=f"{day}T04:00", all_following=True)
    assert [f"{occurrence.wall:%d %b %H:%M}" for occurrence in view.upcoming[:2]] == coming


@on_each_database
@pytest.mark.parametrize(
    ("until", "end"),
    [("2027-03-13", "2027-03-13T23:59:59+05:45"), ("2027-03-13 18:00", "2027-03-13T18:00:00-02:30")],
)
def test_an_end_that_is_a_day_stays_that_day_in_another_zone(desk: Desk, until: str, end: str) -> None:
    started = desk.scheduler.schedule("Pill", repeat="daily at 9:00", until=until, timezone="America/St_Johns")
    view = desk.scheduler.reschedule(started.record.task.id, timezone="Asia/Kathmandu")
    expected = datetime.fromisoformat(end) if "+" in end else started.record.task.until
    assert view.record.task.until == expected


BEFORE_THE_GAP = datetime(2027, 3, 27, 20, tzinfo=UTC)
SKIPPED = ["2:30", "tomorrow 2:30", datetime(2027, 3, 28, 2, 30)]  # noqa: DTZ001 - a wall time


@pytest.mark.parametrize("when", SKIPPED)
@pytest.mark.parametrize(
    ("repeat", "days"),
    [
        ("daily at 1:00", ["28 Mar", "29 Mar", "30 Mar"]),
        ("every 2 days", ["28 Mar", "30 Mar", "01 Apr"]),
        ("every sunday at 1:00", ["28 Mar", "04 Apr", "11 Apr"]),
    ],
)
def test_a_series_that_moves_to_a_time_that_the_clocks_skip_has_that_time_on_all_other_days(
    desk: Desk, repeat: str, days: list[str], when: str | datetime
) -> None:
    desk.clock.at = BEFORE_THE_GAP
    begin = None if "1:00" in repeat else "tomorrow 1:00"
    task_id = desk.scheduler.schedule("Standup", repeat=repeat, when=begin).record.task.id
    for _ in range(2):
        view = desk.scheduler.reschedule(task_id, when=when, all_following=True)
        times = [each.instant.astimezone(ZoneInfo(BERLIN)) for each in view.upcoming[:3]]
        assert [f"{at:%d %b %H:%M}" for at in times] == [f"{days[0]} 03:00", *(f"{day} 02:30" for day in days[1:])]
        assert "02:30 does not exist" in " ".join(view.warnings)


@pytest.mark.parametrize("when", SKIPPED[1:])
@pytest.mark.parametrize("is_new", [True, False])
def test_a_series_that_begins_at_a_time_that_the_clocks_skip_has_that_time_on_all_other_days(
    desk: Desk, when: str | datetime, *, is_new: bool
) -> None:
    desk.clock.at = BEFORE_THE_GAP
    view = desk.scheduler.schedule("Standup", repeat="every 2 days" if is_new else "daily at 9:00", when=when)
    if not is_new:
        view = desk.scheduler.reschedule(view.record.task.id, repeat="every 2 days", when=when)
    times = [each.instant.astimezone(ZoneInfo(BERLIN)) for each in view.upcoming[:2]]
    assert [f"{at:%d %H:%M}" for at in times] == ["28 03:00", "30 02:30"]
    assert len([text for text in view.warnings if "02:30 does not exist" in text]) == 1


@pytest.mark.parametrize("moves_before", [False, True])
@pytest.mark.parametrize(
    ("repeat", "day", "when", "coming"),
    [
        ("every day at 1:30", "2027-03-28", "2 hours later", ["28 Mar 03:30", "29 Mar 03:30"]),
        ("every day at 1:30", "2027-03-28", "1 hour later", ["28 Mar 03:00", "29 Mar 02:30"]),
        ("every sunday at 3:30", "2027-03-28", "2 hours earlier", ["28 Mar 01:30", "04 Apr 01:30"]),
        ("every day at 9:00", "2027-03-27", "1 day later", ["28 Mar 09:00", "29 Mar 09:00"]),
        ("every day at 1:30", "2027-10-31", "2 hours later", ["31 Oct 03:30", "01 Nov 03:30"]),
        ("every sunday at 1:30", "2027-10-31", "90 minutes later", ["31 Oct 03:00", "07 Nov 03:00"]),
        ("every day at 1:30", "2027-10-30", "2 hours later", ["30 Oct 03:30", "31 Oct 03:30"]),
    ],
)
def test_a_series_that_moves_by_a_length_keeps_it_on_the_clock_where_clocks_change(
    desk: Desk, repeat: str, day: str, when: str, coming: list[str], *, moves_before: bool
) -> None:
    task_id = desk.scheduler.schedule("Standup", repeat=repeat, when=day).record.task.id
    if moves_before:
        desk.scheduler.reschedule(task_id, when="10 minutes earlier")
        view = desk.scheduler.reschedule(task_id, when=when, all_following=True)
        assert f"{view.upcoming[1].wall:%d %b %H:%M}" == coming[1]
        return
    view = desk.scheduler.reschedule(task_id, when=when, all_following=True)
    times = [each.instant.astimezone(ZoneInfo(BERLIN)) for each in view.upcoming[:2]]
    assert [f"{at:%d %b %H:%M}" for at in times] == coming
    assert "counted from its present time" in view.warnings

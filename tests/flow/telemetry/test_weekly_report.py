"""The weekly report: each Monday at nine, once for each channel, over processes and restarts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.store import Store
from duetime.server.telemetry.alerts.weekly_report import WeeklyReport, last_monday

from tests.builders import Clock
from tests.flow.telemetry.test_alert_monitor import Pager

ZONE = "Europe/Berlin"
MONDAY = datetime(2026, 11, 30, 8, tzinfo=UTC)  # nine o'clock there


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (MONDAY, MONDAY),
        (MONDAY - timedelta(seconds=1), MONDAY - timedelta(days=7)),
        (MONDAY + timedelta(days=6, hours=23), MONDAY),
        (datetime(2026, 10, 26, 20, tzinfo=UTC), datetime(2026, 10, 26, 8, tzinfo=UTC)),
        (datetime(2026, 10, 24, 20, tzinfo=UTC), datetime(2026, 10, 19, 7, tzinfo=UTC)),
    ],
    ids=["at nine", "before", "sunday", "after the change of clocks", "before it"],
)
def test_monday_at_nine_is_that_of_the_zone(now: datetime, found: datetime) -> None:
    assert last_monday(now, ZONE) == found


def test_each_channel_gets_one_report_whatever_number_of_processes_and_restarts(store: Store, clock: Clock) -> None:
    one, two = Pager("webhook:one"), Pager("webhook:two")
    clock.at = MONDAY - timedelta(hours=1)
    for hour in range(0, 14 * 24, 4):
        for _ in range(2):
            WeeklyReport(lambda: store, lambda: [one, two], zone=ZONE).step()
        clock.forward(hours=4)
        if hour == 4:
            assert [len(each.told) for each in (one, two)] == [1, 1]
    assert [len(each.told) for each in (one, two)] == [2, 2]
    assert one.told[0].text.startswith(f"Mon 23 Nov 09:00 to Mon 30 Nov 2026 09:00 {ZONE}\n0 runs ended")


def test_a_report_that_a_channel_does_not_take_is_tried_again_for_a_day(store: Store, clock: Clock) -> None:
    pager, clock.at = Pager(), MONDAY
    pager.refuses = True
    weekly = WeeklyReport(lambda: store, lambda: [pager], zone=ZONE)
    for _ in range(3):
        weekly.step()
        clock.forward(hours=2)
    pager.refuses = False
    weekly.step()
    weekly.step()
    assert (len(pager.told), len(set(pager.keys))) == (1, 1)


def test_a_process_that_starts_on_wednesday_reports_nothing(store: Store, clock: Clock) -> None:
    pager, clock.at = Pager(), MONDAY + timedelta(days=2)
    assert WeeklyReport(lambda: store, lambda: [pager], zone=ZONE).step() == 600
    assert pager.told == []


@pytest.mark.parametrize(
    ("monday", "week"),
    [
        (datetime(2026, 3, 30, 7, tzinfo=UTC), "Mon 23 Mar 09:00 to Mon 30 Mar 2026 09:00"),
        (datetime(2026, 10, 26, 8, tzinfo=UTC), "Mon 19 Oct 09:00 to Mon 26 Oct 2026 09:00"),
    ],
    ids=["of 167 hours", "of 169 hours"],
)
def test_the_week_of_a_change_of_clocks_begins_at_nine_too(
    store: Store, clock: Clock, monday: datetime, week: str
) -> None:
    pager, clock.at = Pager(), monday
    WeeklyReport(lambda: store, lambda: [pager], zone=ZONE).step()
    assert pager.told[0].text.startswith(f"{week} {ZONE}\n")


def test_the_next_look_is_not_before_now_in_a_week_of_169_hours(store: Store, clock: Clock) -> None:
    clock.at = datetime(2026, 10, 19, 7, 30, tzinfo=UTC)
    assert WeeklyReport(lambda: store, list, zone=ZONE).step() == 30


def test_the_notices_of_a_report_are_kept_until_the_next_one(store: Store, clock: Clock) -> None:
    channels = [Pager("webhook:one"), Pager("webhook:two")]
    for week in range(3):
        clock.at = MONDAY + timedelta(weeks=week)
        WeeklyReport(lambda: store, lambda: channels, zone=ZONE).step()
    assert {key for _, key, _ in store.alerts.notices()} == {"2026-12-14"}
    assert [len(each.told) for each in channels] == [3, 3]

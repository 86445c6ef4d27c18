"""Windows of the calendar: one follows the other without end, in every zone, whatever its clocks do."""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from duetime.scheduler.rules.limits import windows
from duetime.scheduler.rules.limits.windows import PERIODS, read_hours, window_ends, window_start
from duetime.scheduler.rules.time import zones
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import some
from tests.search import examples

FIRST_DAY = datetime(1972, 1, 1, tzinfo=UTC)
SPAN_DAYS = 365 * 65
WINDOW_COUNT = 40
ODD_ZONES = (
    "Africa/Monrovia",
    "America/Caracas",
    "America/St_Johns",
    "Antarctica/Casey",
    "Antarctica/Troll",
    "Asia/Kathmandu",
    "Asia/Pyongyang",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Pacific/Kiritimati",
)
"""Their clocks change, or once changed, by something else than an hour."""

INSTANTS = st.builds(
    lambda day, minutes: FIRST_DAY + timedelta(days=day, minutes=minutes),
    st.integers(0, SPAN_DAYS),
    st.integers(0, 1439),
)


def check(period: str, zone: ZoneInfo, now: datetime) -> None:
    """See that windows follow each other from `now` on, and that each begins where the one before it ends."""
    ends = window_ends(period, zone, now, WINDOW_COUNT)
    assert window_start(period, zone, now) <= now < ends[0]
    assert all(before < after for before, after in pairwise(ends))
    for before, after in pairwise(ends):
        assert window_start(period, zone, before) == window_start(period, zone, after - timedelta(seconds=1)) == before


def changes(zone: ZoneInfo) -> Iterator[datetime]:
    """Give a day before each change of the clocks."""
    days = [FIRST_DAY + timedelta(days=day) for day in range(SPAN_DAYS)]
    for before, after in pairwise(days):
        if before.astimezone(zone).utcoffset() != after.astimezone(zone).utcoffset():
            yield before


@pytest.mark.parametrize("name", ODD_ZONES)
def test_hours_and_days_go_on_through_every_change_of_odd_clocks(name: str) -> None:
    zone = ZoneInfo(name)
    for now in some(changes(zone)):
        check("hour", zone, now)
        check("day", zone, now)


@examples(100)
@given(st.sampled_from(sorted(zoneinfo.available_timezones())), st.sampled_from(PERIODS), INSTANTS)
def test_windows_go_on_in_any_zone_at_any_time(name: str, period: str, now: datetime) -> None:
    check(period, ZoneInfo(name), now)


@pytest.mark.parametrize(
    ("day", "zone", "clock"),
    [
        (date(2026, 3, 29), "Europe/Berlin", "02:30"),
        (date(2026, 10, 25), "Europe/Berlin", "02:30"),
        (date(2026, 10, 4), "Australia/Lord_Howe", "02:15"),
        (date(2026, 3, 29), "Europe/Berlin", "01:30"),
    ],
    ids=["skipped", "twice", "skipped by half an hour", "once"],
)
def test_hours_begin_at_the_instant_that_every_other_part_gives_a_wall_time(day: date, zone: str, clock: str) -> None:
    home = ZoneInfo(zone)
    start = datetime.combine(day, time(), home).astimezone(UTC)
    found = windows.changes([read_hours(f"{clock}-06:00", 5)], 0, home, start, 0)
    wall = datetime.combine(day, time.fromisoformat(clock))
    assert next(at for at, capacity in found if capacity == 5) == zones.place(wall, home).instant

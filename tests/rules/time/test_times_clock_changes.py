"""Where clocks jump, a time becomes the first valid instant, and the result says so. Zones are today's."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import times, zones

MARCH = datetime(2027, 3, 13, 12, 0, tzinfo=UTC)


def test_a_wall_time_in_the_gap_moves_to_the_first_valid_instant() -> None:
    found = times.resolve("2027-03-14T02:30", now=MARCH, zone="America/New_York")
    assert found.wall == datetime.fromisoformat("2027-03-14T03:00")
    assert found.instant == datetime(2027, 3, 14, 7, 0, tzinfo=UTC)
    (said,) = found.assumptions
    assert said.startswith("02:30 does not exist on Sun 14 Mar 2027 in America/New_York (clocks go forward): 03:00")


def test_a_wall_time_that_happens_twice_takes_the_first() -> None:
    found = times.resolve("2027-11-07T01:30", now=MARCH, zone="America/New_York")
    assert found.instant == datetime(2027, 11, 7, 5, 30, tzinfo=UTC)
    assert found.assumptions == (
        "01:30 happens twice on Sun 7 Nov 2027 in America/New_York (clocks go back): the first is used",
    )


def test_an_offset_chooses_the_second_of_two() -> None:
    found = times.resolve("2027-11-07T01:30-05:00", now=MARCH, zone="America/New_York")
    assert (found.instant, found.assumptions) == (datetime(2027, 11, 7, 6, 30, tzinfo=UTC), ())


def test_half_an_hour_can_be_missing() -> None:
    found = times.resolve("2026-10-04T02:10", now=datetime(2026, 10, 1, tzinfo=UTC), zone="Australia/Lord_Howe")
    assert found.wall == datetime.fromisoformat("2026-10-04T02:30")


def test_a_whole_day_can_be_missing() -> None:
    placed = zones.place(datetime.fromisoformat("2011-12-30T09:00"), zones.load("Pacific/Apia"))
    assert (placed.instant, placed.shift) == (datetime(2011, 12, 30, 10, 0, tzinfo=UTC), zones.GAP)


def test_hours_are_elapsed_and_days_are_of_the_calendar() -> None:
    start = datetime(2027, 3, 13, 17, 0, tzinfo=UTC)  # noon, the day before clocks go forward
    day = times.resolve("in 1 day", now=start, zone="America/New_York")
    hours = times.resolve("in 24 hours", now=start, zone="America/New_York")
    assert day.wall == datetime.fromisoformat("2027-03-14T12:00")
    assert hours.instant - start == timedelta(hours=24)
    assert hours.instant - day.instant == timedelta(hours=1)


@pytest.mark.parametrize("name", ["America/New_York", "america/new_york", " UTC "])
def test_zones_are_found_in_any_case(name: str) -> None:
    assert zones.find(name).key.casefold() == name.strip().casefold()


@pytest.mark.parametrize(
    ("name", "real"),
    [
        ("America/Edmunton", "America/Edmonton"),
        ("Edmonton", "America/Edmonton"),
        ("new york", "America/New_York"),
        ("Europe/Berln", "Europe/Berlin"),
    ],
)
def test_an_unknown_zone_is_answered_with_the_nearest_real_one(name: str, real: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        times.resolve("tomorrow", now=MARCH, zone=name)
    assert caught.value.argument == "timezone"
    assert real == caught.value.example


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "Mars/Olympus", "x" * 500, "\x00", "America"])
def test_no_name_reaches_a_file_that_is_no_zone(name: str) -> None:
    with pytest.raises(InvalidArgument):
        zones.find(name)


def test_zone_data_is_no_older_than_the_tzdata_package() -> None:
    winter = datetime(2026, 12, 1, 12, 0, tzinfo=UTC)
    assert zones.offset(zones.load("America/Edmonton"), winter) == timedelta(hours=-6)

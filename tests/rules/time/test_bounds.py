"""Bounds of filters: they point into the past unless they say otherwise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.bounds import Bounds, resolve_bound
from duetime.scheduler.rules.time import zones
from hypothesis import given
from hypothesis import strategies as st

HOME = "America/Edmonton"
NOW = datetime(2026, 11, 21, 17, 0, tzinfo=zones.load(HOME))
"""A Saturday."""


def bound(text: str, argument: str = "since", now: datetime = NOW) -> str:
    found = resolve_bound(text, now=now.astimezone(UTC), zone=HOME, argument=argument)
    return f"{found.astimezone(zones.load(HOME)):%Y-%m-%d %H:%M}"


@pytest.mark.parametrize("argument", ["since", "until", "after"])
@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("friday", "2026-11-20 00:00"),
        ("since monday", "2026-11-16 00:00"),
        ("saturday", "2026-11-14 00:00"),
        ("saturday 9:00", "2026-11-21 09:00"),
        ("saturday 18:00", "2026-11-14 18:00"),
        ("last friday", "2026-11-20 00:00"),
        ("last saturday", "2026-11-14 00:00"),
        ("last friday at noon", "2026-11-20 12:00"),
        ("this monday", "2026-11-16 00:00"),
        ("monday 9am", "2026-11-16 09:00"),
        ("20:00", "2026-11-20 20:00"),
        ("16:00", "2026-11-21 16:00"),
        ("noon", "2026-11-21 12:00"),
        ("12h", "2026-11-21 05:00"),
        ("PT12H", "2026-11-21 05:00"),
        ("-12h", "2026-11-21 05:00"),
        ("90 minutes ago", "2026-11-21 15:30"),
        ("2 days ago", "2026-11-19 17:00"),
        ("a month ago", "2026-10-21 17:00"),
        ("the last 24 hours", "2026-11-20 17:00"),
        ("past week", "2026-11-14 17:00"),
        ("last hour", "2026-11-21 16:00"),
        ("last week", "2026-11-09 00:00"),
        ("this week", "2026-11-16 00:00"),
        ("last month", "2026-10-01 00:00"),
        ("last weekend", "2026-11-14 00:00"),
        ("last night", "2026-11-20 18:00"),
        ("yesterday evening", "2026-11-20 17:00"),
        ("this morning", "2026-11-21 00:00"),
        ("this afternoon", "2026-11-21 12:00"),
        ("today", "2026-11-21 00:00"),
        ("today noon", "2026-11-21 12:00"),
        ("yesterday", "2026-11-20 00:00"),
        ("yesterday 20:00", "2026-11-20 20:00"),
        ("nov 20", "2026-11-20 00:00"),
        ("the 30th", "2026-10-30 00:00"),
        ("the 31st", "2026-10-31 00:00"),
        ("dec 24", "2025-12-24 00:00"),
        ("29 february", "2024-02-29 00:00"),
        ("2026-11-02 19:30", "2026-11-02 19:30"),
        ("2026-11-02T19:30+01:00", "2026-11-02 12:30"),
        ("2026-11-02", "2026-11-02 00:00"),
        ("9am UTC", "2026-11-21 03:00"),
        ("now", "2026-11-21 17:00"),
    ],
)
def test_a_bound_is_the_latest_such_time_that_is_past(text: str, means: str, argument: str) -> None:
    assert bound(text, argument) == means


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("in 3 days", "2026-11-24 17:00"),
        ("in 90 min", "2026-11-21 18:30"),
        ("+2h", "2026-11-21 19:00"),
        ("2 hours from now", "2026-11-21 19:00"),
        ("tomorrow", "2026-11-22 00:00"),
        ("tomorrow 9am", "2026-11-22 09:00"),
        ("tonight", "2026-11-21 18:00"),
        ("this evening", "2026-11-21 17:00"),
        ("next friday", "2026-11-27 00:00"),
        ("next week", "2026-11-23 00:00"),
        ("2026-12-24", "2026-12-24 00:00"),
        ("end of month", "2026-12-01 00:00"),
    ],
)
def test_a_phrase_that_says_that_it_lies_ahead_does(text: str, means: str) -> None:
    assert bound(text, "since") == bound(text, "before") == means


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("friday", "2026-11-27 00:00"),
        ("saturday", "2026-11-28 00:00"),
        ("saturday 18:00", "2026-11-21 18:00"),
        ("16:00", "2026-11-22 16:00"),
        ("12h", "2026-11-22 05:00"),
        ("dec 24", "2026-12-24 00:00"),
        ("the 31st", "2026-12-31 00:00"),
        ("yesterday", "2026-11-20 00:00"),
        ("this morning", "2026-11-21 00:00"),
        ("last night", "2026-11-20 18:00"),
        ("2 days ago", "2026-11-19 17:00"),
    ],
)
def test_tasks_due_before_a_day_are_those_before_the_one_that_comes(text: str, means: str) -> None:
    assert bound(text, "before") == means


@pytest.mark.parametrize(
    ("text", "end", "means"),
    [
        ("18:00", "20:00", "2026-11-21 18:00"),
        ("16:00", "20:00", "2026-11-21 16:00"),
        ("friday", "2026-11-29", "2026-11-27 00:00"),
        ("friday", "sunday", "2026-11-20 00:00"),
        ("friday", "now", "2026-11-20 00:00"),
        ("12h", "next sunday", "2026-11-21 05:00"),
        ("yesterday", "next sunday", "2026-11-20 00:00"),
    ],
)
def test_a_day_or_a_time_is_the_next_where_that_is_before_the_end_of_the_filter(
    text: str, end: str, means: str
) -> None:
    found = Bounds.of(None, NOW.astimezone(UTC), HOME, after=text, before=end).instants["after"]
    assert f"{found.astimezone(zones.load(HOME)):%Y-%m-%d %H:%M}" == means


@pytest.mark.parametrize("text", ["P1000000000Y", "999999999 years ago", "at " + "9" * 40, "@" + "9" * 40, "9" * 150])
def test_a_bound_beyond_the_calendar_or_the_clock_is_refused(text: str) -> None:
    for argument in ("since", "before"):
        with pytest.raises(InvalidArgument):
            bound(text, argument)


@pytest.mark.parametrize("text", ["whenever", "5", "a while ago", "friday or so", "soon", ""])
def test_a_bound_that_is_not_understood_is_refused_with_an_example_that_works(text: str) -> None:
    with pytest.raises(InvalidArgument) as wrong:
        bound(text)

    assert wrong.value.example == "since='yesterday'"


def test_an_hour_of_either_half_of_the_day_is_refused_with_both() -> None:
    with pytest.raises(InvalidArgument) as wrong:
        bound("by 8", "before")
    assert wrong.value.example == "before='20:00' or before='08:00'"


@given(
    text=st.sampled_from(["friday", "20:00", "12h", "the 31st", "29 february", "last night", "monday 9am", "saturday"]),
    at=st.datetimes(datetime(2024, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001 - made aware below
)
def test_whenever_it_is_asked_a_bound_is_past_and_for_before_ahead(text: str, at: datetime) -> None:
    now = at.replace(tzinfo=UTC)
    since = resolve_bound(text, now=now, zone=HOME, argument="since")
    before = resolve_bound(text, now=now, zone=HOME, argument="before")

    assert since <= now
    assert text == "last night" or before > now - timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("this week", "2026-11-23 00:00"),
        ("diese Woche", "2026-11-23 00:00"),
        ("this month", "2026-12-01 00:00"),
        ("this quarter", "2027-01-01 00:00"),
        ("end of month", "2026-12-01 00:00"),
        ("fin du mois", "2026-12-01 00:00"),
        ("by friday", "2026-11-28 00:00"),
        ("until friday", "2026-11-28 00:00"),
        ("bis Freitag", "2026-11-28 00:00"),
        ("no later than friday", "2026-11-28 00:00"),
        ("before friday", "2026-11-27 00:00"),
        ("avant vendredi", "2026-11-27 00:00"),
        ("by friday 17:00", "2026-11-27 17:00"),
        ("by tonight", "2026-11-22 00:00"),
        ("before tomorrow morning", "2026-11-22 00:00"),
        ("avant demain matin", "2026-11-22 00:00"),
        ("vor morgen früh", "2026-11-22 00:00"),
        ("by tomorrow morning", "2026-11-22 12:00"),
        ("last friday of this month", "2026-11-27 00:00"),
        ("by next week", "2026-11-30 00:00"),
        ("by 17", "2026-11-22 17:00"),
        ("antes de las 20", "2026-11-21 20:00"),
        ("week 50", "2026-12-07 00:00"),
        ("by week 50", "2026-12-14 00:00"),
        ("through june", "2027-07-01 00:00"),
        ("until june", "2027-06-01 00:00"),
        ("today", "2026-11-21 00:00"),
    ],
)
def test_an_end_is_behind_all_of_the_day_or_period_that_it_names(text: str, means: str) -> None:
    assert bound(text, "before") == means


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        ("today", "2026-11-21 00:00", "2026-11-22 00:00"),
        ("friday", "2026-11-27 00:00", "2026-11-28 00:00"),
        ("2026-12-03", "2026-12-03 00:00", "2026-12-04 00:00"),
        ("this week", "2026-11-16 00:00", "2026-11-23 00:00"),
        ("last week", "2026-11-09 00:00", "2026-11-16 00:00"),
        ("this weekend", "2026-11-21 00:00", "2026-11-23 00:00"),
        ("the weekend", "2026-11-21 00:00", "2026-11-23 00:00"),
        ("end of month", "2026-11-30 00:00", "2026-12-01 00:00"),
        ("Ende des Monats", "2026-11-30 00:00", "2026-12-01 00:00"),
        ("eod", "2026-11-21 00:00", "2026-11-22 00:00"),
        ("week 50", "2026-12-07 00:00", "2026-12-14 00:00"),
        ("2026-W50", "2026-12-07 00:00", "2026-12-14 00:00"),
        ("november", "2026-11-01 00:00", "2026-12-01 00:00"),
        ("9:00", "2026-11-21 09:00", "2026-11-22 09:00"),
        ("june", "2027-06-01 00:00", "2027-07-01 00:00"),
        ("tomorrow morning", "2026-11-22 00:00", "2026-11-22 12:00"),
        ("tonight", "2026-11-21 18:00", "2026-11-22 00:00"),
    ],
)
def test_the_same_words_for_both_bounds_mean_all_of_that_day_or_period(text: str, begins: str, ends: str) -> None:
    found = Bounds.of(None, NOW.astimezone(UTC), HOME, after=text, before=text).instants
    walls = [f"{found[name].astimezone(zones.load(HOME)):%Y-%m-%d %H:%M}" for name in ("after", "before")]
    assert walls == [begins, ends]


@pytest.mark.parametrize("text", ["saturday", "samedi", "the 21st", "21 november", "2026-11-21", "today"])
def test_the_same_words_for_both_bounds_mean_today_on_that_day(text: str) -> None:
    found = Bounds.of(None, NOW.astimezone(UTC), HOME, after=text, before=text).instants
    walls = [f"{found[name].astimezone(zones.load(HOME)):%Y-%m-%d %H:%M}" for name in ("after", "before")]
    assert walls == ["2026-11-21 00:00", "2026-11-22 00:00"]

"""Recurrences equal brute force, minute by minute, around every change of the clocks from 2024 to 2035.

A sample runs by default, the same on every run; `EXHAUSTIVE=1` looks at every transition of every zone.
"""

from __future__ import annotations

import os
from datetime import UTC, date, datetime, timedelta

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from hypothesis import given
from hypothesis import strategies as st

from tests.rules.definitions import RULES
from tests.rules.oracle import MINUTE, ZONES, Definition, firings, transitions
from tests.search import examples

EXHAUSTIVE = bool(os.environ.get("EXHAUSTIVE"))
WINDOW = timedelta(days=3)
ALWAYS = frozenset(range(24))


def parsed(text: str, zone: str, anchor: datetime) -> Recurrence | None:
    """Return the rule, None if it is refused because it never fires."""
    try:
        return recurrence.parse(text, zone=zone, anchor=anchor)
    except InvalidArgument as error:
        if "never fires" not in error.problem:
            raise
        return None


def computed(text: str, zone: str, anchor: datetime, start: datetime, end: datetime) -> list[datetime]:
    """Return what the code under test says of a window, going from each occurrence to the next."""
    rule = parsed(text, zone, anchor)
    found = rule.first(start) if rule else None
    instants: list[datetime] = []
    while rule and found and found.instant < end:
        instants.append(found.instant)
        found = rule.after(found.instant)
    return instants


def compare(rule: Definition, zone: str, start: datetime, anchor: datetime) -> None:
    end = start + WINDOW
    expected = firings(rule, zone, anchor, start, WINDOW // MINUTE)
    assert computed(rule.text, zone, anchor, start, end) == expected, f"{rule.text} in {zone} from {anchor}"


def window(zone: str, pick: int) -> datetime:
    """Return the start of a window around a transition; zones without one have windows anywhere."""
    around = transitions(zone)
    if not around:
        return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=pick % 4300)
    return around[pick % len(around)] - timedelta(hours=36)


@pytest.mark.parametrize("zone", ZONES)
@given(rule=RULES, pick=st.integers(0, 10_000), ahead=st.integers(-90 * 1440, 2 * 1440))
@examples(2000 if EXHAUSTIVE else 10)
def test_recurrences_equal_brute_force(zone: str, rule: Definition, pick: int, ahead: int) -> None:
    start = window(zone, pick)
    compare(rule, zone, start, start + ahead * MINUTE)


def at(hours: frozenset[int], *minutes: int) -> Definition:
    text = f"{','.join(map(str, minutes))} {','.join(map(str, sorted(hours)))} * * *"
    return Definition(text, lambda _day, _anchor: True, hours, frozenset(minutes))


SWEEP = [
    at(frozenset({0, 1, 2, 3}), 0, 15, 30),
    at(frozenset({2}), 30),
    Definition("*/20 * * * *", lambda _day, _anchor: True, None, frozenset({0, 20, 40})),
    Definition("every 90 minutes", lambda _day, _anchor: True, None, every=90),
]


@pytest.mark.parametrize("zone", ZONES)
def test_every_transition_of_a_zone_is_met_as_defined(zone: str) -> None:
    moments = transitions(zone)[:: 1 if EXHAUSTIVE else 4]
    for moment in moments:
        start = moment - timedelta(hours=36)
        for rule in SWEEP:
            compare(rule, zone, start, start - timedelta(minutes=7))


@given(rule=RULES.filter(lambda rule: rule.hours is not None), start=st.dates(date(2024, 1, 1), date(2032, 1, 1)))
@examples(60)
def test_days_equal_brute_force_over_years(rule: Definition, start: date) -> None:
    anchor = datetime.combine(start, datetime.min.time(), UTC)
    days = [start + timedelta(days=ahead) for ahead in range(1200)]
    expected = [day for day in days if rule.day(day, start)]
    recurring = parsed(rule.text, "UTC", anchor)
    found: list[date] = []
    coming = recurring.first(anchor) if recurring else None
    while recurring and coming and coming.wall.date() <= days[-1]:
        found.append(coming.wall.date())
        coming = recurring.first(datetime.combine(coming.wall.date() + timedelta(days=1), datetime.min.time(), UTC))
    assert found == expected


def test_the_zones_are_those_that_go_wrong() -> None:
    assert len(ZONES) >= 40
    assert sum(len(transitions(zone)) for zone in ZONES) > 600

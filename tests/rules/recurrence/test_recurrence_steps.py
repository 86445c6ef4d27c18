"""The work to read a rule, counted in steps; and rules of RFC 5545 equal dateutil's reading of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest
from dateutil.rrule import rrulestr  # type: ignore[import-untyped]  # it has no stubs of its own
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.recurrence import recurrence
from duetime.scheduler.rules.recurrence.calendar_days import Days
from duetime.scheduler.rules.recurrence.expansion import ElapsedPlan
from duetime.scheduler.rules.recurrence.rule import MAX_INTERVALS
from duetime.scheduler.rules.time import zones
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

START = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)
ZONE = "America/New_York"
MAX_STEPS = 32_000
"""Years, candidates and offsets that a rule may look at: four passes over the years until 9999. Of the dearest, each
thousand takes some milliseconds."""

PRIMES_AND_ROUND = [
    1,
    2,
    3,
    5,
    7,
    13,
    23,
    25,
    59,
    61,
    100,
    169,
    239,
    366,
    719,
    721,
    1000,
    1439,
    1440,
    1441,
    8761,
    10080,
]
HUGE = [43_201, 118_314, 174_989, 525_601, 9_999_991, 10_512_000]


def some(values: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True).map(",".join)


def part(name: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(st.just(""), values.map(lambda value: f";{name}={value}"))


@st.composite
def rules(draw: st.DrawFn, *, huge: bool = True) -> str:
    freq = draw(st.sampled_from(sorted(MAX_INTERVALS)))
    intervals = [each for each in PRIMES_AND_ROUND + HUGE * huge if each <= MAX_INTERVALS[freq]]
    nth = freq in {"MONTHLY", "YEARLY"} and draw(st.booleans())  # dateutil wants both of "every" and "nth" at once
    days = ["5MO", "-5FR", "1MO", "-1SU"] if nth else ["MO", "TU", "SU"]
    parts = (
        part("BYMONTH", some(["1", "2", "4", "9", "12"])),
        st.just("")
        if freq == "WEEKLY"
        else part("BYMONTHDAY", some(["1", "15", "29", "30", "31", "-1", "-29", "-31"])),
        part("BYDAY", some(days)),
        st.just("") if freq == "SECONDLY" else part("BYHOUR", some([str(hour) for hour in range(24)])),
        st.just("") if freq == "SECONDLY" else part("BYMINUTE", some([str(minute) for minute in range(60)])),
    )
    return f"FREQ={freq};INTERVAL={draw(st.sampled_from(intervals))}" + "".join(draw(each) for each in parts)


COUNTS = st.sampled_from(["", "", ";COUNT=2", ";COUNT=100", ";COUNT=999", ";COUNT=1000"])


@pytest.mark.parametrize(
    "text",
    [
        "FREQ=YEARLY;INTERVAL=19;BYMONTH=2;BYMONTHDAY=29;COUNT=1000",
        "0 0 29 2 *",
        "FREQ=MINUTELY;INTERVAL=1439;BYHOUR=3;BYMINUTE=5",
        "FREQ=MINUTELY;INTERVAL=719;BYHOUR=3;BYMINUTE=5;BYDAY=MO;BYMONTH=2;COUNT=1000",
        "FREQ=MINUTELY;COUNT=1000",
        "FREQ=SECONDLY;COUNT=1000",
        "FREQ=SECONDLY;INTERVAL=7;BYMONTH=2;BYMONTHDAY=29;COUNT=1000",
        "FREQ=MINUTELY;INTERVAL=10512000",
        "FREQ=DAILY;INTERVAL=7300;BYMONTH=2;BYMONTHDAY=29",
        "FREQ=MINUTELY;INTERVAL=1439;BYHOUR=3;BYMINUTE=7;BYDAY=MO",
        "FREQ=MINUTELY;INTERVAL=525601;BYMONTHDAY=-31,-30;BYMINUTE=55",
        "FREQ=MINUTELY;INTERVAL=9999991;BYHOUR=17",
        "FREQ=MINUTELY;INTERVAL=43201;BYHOUR=11;BYMINUTE=25;COUNT=1000",
        "FREQ=HOURLY;INTERVAL=23;BYMONTH=1,11;BYMONTHDAY=29;BYHOUR=7,15;COUNT=1000",
        "FREQ=HOURLY;INTERVAL=8761;BYHOUR=2,7;BYMINUTE=25,34;COUNT=1000",
        "FREQ=WEEKLY;INTERVAL=744;BYHOUR=2,17;BYMINUTE=58",
        "FREQ=WEEKLY;INTERVAL=1000;BYHOUR=3;COUNT=1000",
        "FREQ=DAILY;INTERVAL=13;BYMONTHDAY=1;BYDAY=SU;COUNT=1000",
        "FREQ=YEARLY;BYDAY=-53SU,53MO;BYHOUR=2,15;COUNT=1000",
        "FREQ=DAILY;INTERVAL=1000;BYDAY=MO;BYHOUR=0,13;COUNT=999",
    ],
)
def test_a_hostile_rule_ends_after_a_bounded_number_of_steps(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 0 < steps_of(text, monkeypatch) <= MAX_STEPS


@given(text=st.builds(str.__add__, rules(), COUNTS))
@examples(60)
def test_no_rule_takes_more_than_a_bounded_number_of_steps(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert steps_of(text, patch) <= MAX_STEPS


def steps_of(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many years, candidates and offsets are looked at to read a rule and to show what comes of it."""
    steps = 0

    def counting(step: Callable[..., object]) -> Callable[..., object]:
        def counted(*arguments: object) -> object:
            nonlocal steps
            steps += 1
            return step(*arguments)

        return counted

    monkeypatch.setattr(Days, "_year", counting(Days._year))
    monkeypatch.setattr(ElapsedPlan, "_next_candidate", counting(ElapsedPlan._next_candidate))
    monkeypatch.setattr(zones, "offset", counting(zones.offset))
    recurrence._parse.cache_clear()
    zones._changes_of_year.cache_clear()
    with suppress(InvalidArgument):
        found, _ = recurrence.soonest(text, zone=ZONE, now=START)
        found.upcoming(START, 5)
        found.notes(START, found.upcoming(START, 5))
    return steps


@given(text=rules(huge=False))
@examples(120)
def test_a_rule_falls_when_dateutil_says(text: str) -> None:
    years = timedelta(days=3 * 366)
    end = START + (timedelta(days=60) if "SECONDLY" in text else years)  # dateutil looks at each second until then
    theirs: list[datetime] = []
    with suppress(ValueError):  # it never falls, and dateutil sees that at once
        theirs = list(islice(rrulestr(f"{text};UNTIL={end:%Y%m%dT%H%M%S}", dtstart=START.replace(tzinfo=None)), 40))
    ours: list[datetime] = []
    with suppress(InvalidArgument):
        upcoming = recurrence.parse(text, zone="UTC", anchor=START).upcoming(START - timedelta(seconds=1), 40)
        ours = [found.instant.replace(tzinfo=None) for found in upcoming if found.instant <= end]
    assert ours == theirs

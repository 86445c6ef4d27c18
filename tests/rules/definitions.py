"""Rules to test with: each as text for the parser, and as a definition for the oracle."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

from hypothesis import strategies as st

from tests.rules.oracle import CODES, DAY_NAMES, Definition

Day = Callable[[date, date], bool]

HOURS = st.frozensets(st.integers(0, 23) | st.integers(0, 4), min_size=1, max_size=3)
MINUTES = st.frozensets(st.integers(0, 59) | st.sampled_from([0, 15, 30, 45]), min_size=1, max_size=3)
WEEKDAYS = st.frozensets(st.integers(0, 6), min_size=1, max_size=4)
MONTHDAYS = st.frozensets(st.integers(1, 31), min_size=1, max_size=6)


def listed(numbers: frozenset[int]) -> str:
    return ",".join(map(str, sorted(numbers)))


def last_of_month(day: date) -> bool:
    return (day + timedelta(days=1)).month != day.month


def nth_weekday(day: date, nth: int) -> bool:
    """Whether a day is the nth of its weekday in its month, from the end when negative."""
    if nth > 0:
        return (day.day - 1) // 7 + 1 == nth
    later = sum((day + timedelta(days=7 * step)).month == day.month for step in range(6))
    return later == -nth


def workdays(month: date) -> list[date]:
    """Return the days from Monday to Friday of the month of a day."""
    days = [month.replace(day=1) + timedelta(days=step) for step in range(31)]
    return [day for day in days if day.month == month.month and day.weekday() < 5]


def monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def words_time(hours: frozenset[int], minutes: frozenset[int]) -> str:
    return " and ".join(f"{hour}:{minute:02}" for hour in sorted(hours) for minute in sorted(minutes))


@st.composite
def cron(draw: st.DrawFn) -> Definition:
    """Draw five fields; both day fields restricted means that either is enough."""
    minutes, hours = draw(MINUTES), draw(st.none() | HOURS)
    monthdays, weekdays = draw(st.none() | MONTHDAYS), draw(st.none() | WEEKDAYS)
    last = draw(st.booleans()) if monthdays else False

    def on(day: date, _anchor: date) -> bool:
        by_month = monthdays is not None and (day.day in monthdays or (last and last_of_month(day)))
        by_week = weekdays is not None and day.weekday() in weekdays
        return by_month or by_week or (monthdays is None and weekdays is None)

    month_field = "*" if monthdays is None else listed(monthdays) + (",L" if last else "")
    week_field = "*" if weekdays is None else listed(frozenset((day + 1) % 7 for day in weekdays))
    text = f"{listed(minutes)} {'*' if hours is None else listed(hours)} {month_field} * {week_field}"
    return Definition(text, on, hours, minutes)


@st.composite
def steps(draw: st.DrawFn) -> Definition:
    """Draw `*/n` and ranges, which stand for the numbers they run through."""
    step, low = draw(st.integers(1, 30)), draw(st.integers(0, 20))
    high = draw(st.integers(low, 23))
    hours = frozenset(range(low, high + 1))
    minutes = frozenset(range(0, 60, step))
    return Definition(
        f"*/{step} {low}-{high} * * *", lambda _day, _anchor: True, None if len(hours) == 24 else hours, minutes
    )


@st.composite
def intervals(draw: st.DrawFn) -> Definition:
    """Draw elapsed time from the anchor, in words or as RRULE."""
    count, unit = draw(st.integers(1, 300)), draw(st.sampled_from([("minute", 1), ("hour", 60)]))
    text = draw(st.sampled_from([f"every {count} {unit[0]}s", f"FREQ={unit[0].upper()[:6]}LY;INTERVAL={count}"]))
    return Definition(text, lambda _day, _anchor: True, None, every=count * unit[1])


@st.composite
def filtered(draw: st.DrawFn) -> Definition:
    """Draw elapsed time that counts on some weekdays only."""
    count, weekdays = draw(st.integers(1, 90)), draw(WEEKDAYS)
    text = f"FREQ=MINUTELY;INTERVAL={count};BYDAY={','.join(CODES[day] for day in sorted(weekdays))}"
    return Definition(text, lambda day, _anchor: day.weekday() in weekdays, None, every=count)


@st.composite
def daily(draw: st.DrawFn) -> Definition:
    count, hours, minutes = draw(st.integers(1, 3)), draw(HOURS), draw(MINUTES)
    text = draw(
        st.sampled_from(
            [
                f"every {count} days at {words_time(hours, minutes)}",
                f"RRULE:FREQ=DAILY;INTERVAL={count};BYHOUR={listed(hours)};BYMINUTE={listed(minutes)}",
            ]
        )
    )
    return Definition(text, lambda day, anchor: (day - anchor).days % count == 0, hours, minutes)


@st.composite
def weekly(draw: st.DrawFn) -> Definition:
    count, weekdays = draw(st.integers(1, 3)), draw(WEEKDAYS)
    hours, minutes = draw(HOURS), draw(MINUTES)
    names = " and ".join(DAY_NAMES[day] for day in sorted(weekdays))
    codes = ",".join(CODES[day] for day in sorted(weekdays))
    text = draw(
        st.sampled_from(
            [
                f"every {count} weeks on {names} at {words_time(hours, minutes)}",
                f"FREQ=WEEKLY;INTERVAL={count};BYDAY={codes};BYHOUR={listed(hours)};BYMINUTE={listed(minutes)}",
            ]
        )
    )
    return Definition(
        text,
        lambda day, anchor: day.weekday() in weekdays and (monday(day) - monday(anchor)).days // 7 % count == 0,
        hours,
        minutes,
    )


@st.composite
def monthly(draw: st.DrawFn) -> Definition:
    count = draw(st.integers(1, 3))
    ending = ";BYHOUR={};BYMINUTE={}"
    hours, minutes = draw(HOURS), draw(MINUTES)
    part, on = draw(month_part())
    text = f"FREQ=MONTHLY;INTERVAL={count};{part}" + ending.format(listed(hours), listed(minutes))
    return Definition(
        text,
        lambda day, anchor: (
            on(day, anchor) and (day.year * 12 + day.month - anchor.year * 12 - anchor.month) % count == 0
        ),
        hours,
        minutes,
    )


@st.composite
def nth_workdays(draw: st.DrawFn) -> Definition:
    """Draw positions among the weekdays of a month; those of a week and more are common, so that a window has some."""
    count = draw(st.integers(1, 2))
    positions = draw(st.frozensets(st.integers(1, 23) | st.integers(-23, -1), min_size=1, max_size=8))
    hour, minute = draw(st.integers(0, 23) | st.integers(0, 4)), draw(st.integers(0, 59))
    text = f"FREQ=MONTHLY;INTERVAL={count};BYDAY=MO,TU,WE,TH,FR;BYSETPOS={listed(positions)};"

    def on(day: date, anchor: date) -> bool:
        days = workdays(day)
        chosen = {days[at - (at > 0)] for at in positions if -len(days) <= at <= len(days)}
        return day in chosen and (day.year * 12 + day.month - anchor.year * 12 - anchor.month) % count == 0

    return Definition(f"{text}BYHOUR={hour};BYMINUTE={minute}", on, frozenset({hour}), frozenset({minute}))


@st.composite
def yearly(draw: st.DrawFn) -> Definition:
    months = draw(st.frozensets(st.sampled_from([2, 3, 4, 9, 10, 11]), min_size=1, max_size=4))
    part, on = draw(month_part())
    hours, minutes = draw(HOURS), draw(MINUTES)
    text = f"FREQ=YEARLY;BYMONTH={listed(months)};{part};BYHOUR={listed(hours)};BYMINUTE={listed(minutes)}"
    return Definition(text, lambda day, anchor: on(day, anchor) and day.month in months, hours, minutes)


@st.composite
def month_part(draw: st.DrawFn) -> tuple[str, Day]:
    """Draw days of a month: by number, the last, or the nth of a weekday."""
    numbers, weekday = draw(MONTHDAYS), draw(st.integers(0, 6))
    nth = draw(st.sampled_from([1, 2, 3, 4, 5, -1, -2]))
    parts: list[tuple[str, Day]] = [
        (f"BYMONTHDAY={listed(numbers)}", lambda day, _anchor: day.day in numbers),
        ("BYMONTHDAY=-1", lambda day, _anchor: last_of_month(day)),
        (f"BYDAY={nth}{CODES[weekday]}", lambda day, _a: day.weekday() == weekday and nth_weekday(day, nth)),
    ]
    return draw(st.sampled_from(parts))


RULES = st.one_of(cron(), steps(), intervals(), filtered(), daily(), weekly(), monthly(), nth_workdays(), yearly())

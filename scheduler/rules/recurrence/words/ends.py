"""The end of a recurrence in words: `until 2026-12-31`, `10 times`, `for 5 days`."""

from __future__ import annotations

from datetime import datetime, timedelta
from fractions import Fraction

from duetime.scheduler.rules.recurrence.rule import FREQUENCIES, MAX_COUNT, MONTHLY, SUB_DAILY, WEEKLY
from duetime.scheduler.rules.recurrence.words.day_lists import Draft
from duetime.scheduler.rules.time.days import dates
from duetime.scheduler.rules.time.durations import UNITS
from duetime.scheduler.rules.time.offsets import refuse_bare_hour
from duetime.scheduler.rules.time.time_of_day import read_clock
from duetime.scheduler.rules.time.tokens import NUMBERS, Misread, Tokens

_UNITS = dict(zip(FREQUENCIES, ("second", "minute", "hour", "day", "week", "month", "year"), strict=True))
_SPAN_S = {"second": 1, "minute": 60, "hour": 3600, "day": 86_400, "week": 604_800, "fortnight": 1_209_600}
_SPAN_MONTHS = {"month": 1, "year": 12}
COUNT_WORDS = ("times", "time", "occurrences")


def read_end(row: Tokens, draft: Draft, start: datetime) -> bool:
    """Read when the recurrence ends into the draft if that comes next."""
    if row.accept("until", "till", "til", "through", "thru"):
        return _until(row, draft, start)
    led = row.accept("for")
    token = row.take()
    count = int(token[:6]) if token.isdigit() else NUMBERS.get(token)
    unit = row.one_of(UNITS) if led and count else None
    if count and unit:
        draft.span = (count, unit)
        return True
    if count is None or not row.accept(*COUNT_WORDS):
        return False
    if not 1 <= count <= MAX_COUNT:
        raise Misread(f"it can recur 1 to {MAX_COUNT} times", "every day at 9:00, 10 times")
    draft.count = count
    return True


def _until(row: Tokens, draft: Draft, start: datetime) -> bool:
    """Read the last day, and a time of day that follows it at once: `2026-12-31 17:00`."""
    whole = row.peek(-1).startswith("thr")
    day = row.attempt(dates.read_last_day, start.date(), draft.calendar, whole=whole)
    if day is None:
        return not whole and draft.freq in SUB_DAILY and _until_clock(row, draft, start)
    draft.until = day.candidates[0]
    own = row.peek() != "at" or draft.freq in SUB_DAILY
    clock = read_clock(row) if own else None
    if clock is not None:
        draft.until = datetime.combine(draft.until, clock.time)
    return True


def _until_clock(row: Tokens, draft: Draft, start: datetime) -> bool:
    """Read the time of day at which what recurs within a day ends: the first one after its start."""
    clock = read_clock(row)
    if clock is None:
        refuse_bare_hour(row)
        return False
    end = datetime.combine(start.date(), clock.time)
    draft.until = end if end >= start else end + timedelta(days=1)
    draft.ends_by_clock = True
    return True


def count_in_span(freq: str, draft: Draft) -> int | None:
    """Return the number of times that a rule fires in the length of time for which it recurs."""
    if draft.span is None:
        return None
    number, unit = draft.span
    periods = _periods(number, unit, freq, draft.interval)
    filtered = freq in SUB_DAILY and (draft.weekdays or draft.monthdays)
    if periods is None or periods.denominator > 1 or filtered or draft.excluded.holidays or draft.months:
        examples = () if periods is None or filtered else _counted(freq, draft.interval, periods)
        problem = f"it is not clear how often that is in {number} {unit}s"
        raise Misread(problem, *(examples or ("every day at 9:00, 5 times",)))
    days = len(draft.weekdays | draft.monthdays) if freq in {WEEKLY, MONTHLY} else 1
    count = int(periods) * max(len(draft.times), len(draft.minutes), 1) * max(days, 1)
    if not 1 <= count <= MAX_COUNT:
        raise Misread(f"it can recur 1 to {MAX_COUNT} times", "every day at 9:00, 10 times")
    return count


def _periods(number: int, unit: str, freq: str, interval: int) -> Fraction | None:
    """Return how many intervals of a frequency are in a length of time; None where months differ in that."""
    table = next((table for table in (_SPAN_S, _SPAN_MONTHS) if unit in table and _UNITS[freq] in table), None)
    return Fraction(number * table[unit], interval * table[_UNITS[freq]]) if table else None


def _counted(freq: str, interval: int, periods: Fraction) -> tuple[str, ...]:
    """Return the rules that recur the whole numbers of times next to so many."""
    every = f"every {interval} {_UNITS[freq]}s" if interval > 1 else f"every {_UNITS[freq]}"
    counts = range(max(int(periods), 1), min(int(periods) + 1, MAX_COUNT) + 1)
    return tuple(f"{every}, {count} times" for count in counts) if freq in SUB_DAILY else ()

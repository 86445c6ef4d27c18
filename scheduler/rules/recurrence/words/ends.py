"""The end of a recurrence in words: `until 2026-12-31`, `10 times`, `for 5 days`."""

from __future__ import annotations

from datetime import date, datetime

from duetime.scheduler.rules.recurrence.rule import DAILY, HOURLY, MAX_COUNT, MONTHLY, SUB_DAILY, WEEKLY, YEARLY
from duetime.scheduler.rules.recurrence.words.day_lists import Draft
from duetime.scheduler.rules.time.days import dates
from duetime.scheduler.rules.time.durations import UNITS
from duetime.scheduler.rules.time.time_of_day import read_clock
from duetime.scheduler.rules.time.tokens import NUMBERS, Misread, Tokens

_PER_UNIT = {
    (HOURLY, "hour"): 1, (HOURLY, "day"): 24, (DAILY, "day"): 1, (DAILY, "week"): 7, (WEEKLY, "week"): 1,
    (MONTHLY, "month"): 1, (MONTHLY, "year"): 12, (YEARLY, "year"): 1,
}  # fmt: skip
"""The number of times that a rule of a frequency, with one day or time of it, fires in a unit of time."""

COUNTED = ("times", "time", "occurrences")


def read_end(row: Tokens, draft: Draft, today: date) -> bool:
    """Read when the recurrence ends into the draft if that comes next."""
    if row.accept("until", "till", "til", "through", "thru"):
        return _until(row, draft, today)
    led = row.accept("for")
    token = row.take()
    count = int(token[:6]) if token.isdigit() else NUMBERS.get(token)
    unit = row.one_of(UNITS) if led and count else None
    if count and unit:
        draft.span = (count, unit)
        return True
    if count is None or not row.accept(*COUNTED):
        return False
    if not 1 <= count <= MAX_COUNT:
        raise Misread(f"it can recur 1 to {MAX_COUNT} times", "every day at 9:00, 10 times")
    draft.count = count
    return True


def _until(row: Tokens, draft: Draft, today: date) -> bool:
    """Read the last day, and a time of day that follows it at once: `2026-12-31 17:00`."""
    whole = row.peek(-1).startswith("thr")
    day = row.attempt(dates.read_last_day, today, draft.calendar, whole=whole)
    if day is None:
        return False
    draft.until = day.candidates[0]
    own = row.peek() != "at" or draft.freq in SUB_DAILY
    clock = read_clock(row) if own else None
    if clock is not None:
        draft.until = datetime.combine(draft.until, clock.time)
    return True


def count_in_span(freq: str, draft: Draft) -> int | None:
    """Return the number of times that a rule fires in the length of time for which it recurs."""
    if draft.span is None:
        return None
    number, unit = draft.span
    each = _PER_UNIT.get((freq, unit))
    if each is None or draft.interval > 1 or draft.excluded.holidays or draft.months:
        raise Misread(f"it is not clear how often that is in {number} {unit}s", "every day at 9:00, 5 times")
    count = number * each * max(len(draft.times), 1) * (max(len(draft.weekdays), 1) if freq == WEEKLY else 1)
    if not 1 <= count <= MAX_COUNT:
        raise Misread(f"it can recur 1 to {MAX_COUNT} times", "every day at 9:00, 10 times")
    return count

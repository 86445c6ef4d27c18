"""Reads counts in a period, such as `twice a day`; they name no times, so the refusal's examples name some."""

from __future__ import annotations

from duetime.scheduler.rules.recurrence.rule import DAILY
from duetime.scheduler.rules.recurrence.words.day_lists import Draft
from duetime.scheduler.rules.time.tokens import NUMBERS, WEEKDAY_NAMES, Misread, Tokens

_ADVERB_COUNT = {"twice": 2, "thrice": 3}
_PERIODS = {"day": "day", "week": "week", "month": "month", "year": "year", "hour": "hour", "night": "day",
            "daily": "day", "weekly": "week", "monthly": "month", "yearly": "year", "hourly": "hour"}  # fmt: skip
_WEEKDAYS = {2: (0, 3), 3: (0, 2, 4), 4: (0, 1, 3, 4), 5: (0, 1, 2, 3, 4), 6: (0, 1, 2, 3, 4, 5)}
_WORKDAY_FROM_HOUR, _SPREAD_HOURS, _MONTH_DAYS, _MAX_TIMES = 9, 8, 30, 9


def read_times_per_period(row: Tokens, draft: Draft) -> bool:
    """Read `twice a day at 9:00 and 17:00` into the draft; raise `Misread` where the times or days are not named."""
    start, count = row.position, row.attempt(_count)
    if count is None:
        return False
    phrase, period = row.since(start), _PERIODS[row.peek(-1)]
    if period == "day" and (row.peek() in {"at", "@"} or row.peek()[:1].isdigit()):
        draft.freq, draft.times_of_day = DAILY, count
        return True
    rest = row.rest
    example = _NAMED[period](count)
    if period != "day" and row.peek() == "on":
        example = f"every {rest.removeprefix('on ')}"
    elif rest:
        example = f"{example} {rest}"
    raise Misread(f"{phrase} does not say when", example)


def _count(row: Tokens) -> int | None:
    word = row.take()
    count = _ADVERB_COUNT.get(word) or (int(word[:4]) if word.isdigit() else NUMBERS.get(word))
    if count is None or (word not in _ADVERB_COUNT and not row.accept("times")):
        return None
    _ = row.accept("a", "an", "per", "each", "every")
    return count if count > 1 and row.one_of(_PERIODS) is not None else None


def _times_of_day(count: int) -> str:
    if count > _MAX_TIMES:
        return "every hour between 9:00 and 17:00"
    hours = [_WORKDAY_FROM_HOUR + round(_SPREAD_HOURS * index / (count - 1)) for index in range(count)]
    return f"every day at {_listed([f'{hour}:00' for hour in hours])}"


def _days_of_week(count: int) -> str:
    days = [WEEKDAY_NAMES[day].lower() for day in _WEEKDAYS.get(count, ())]
    return f"every {_listed(days)}" if days else "every day"


def _days_of_month(count: int) -> str:
    days = [f"{1 + _MONTH_DAYS * index // count}" for index in range(min(count, _MONTH_DAYS))]
    return f"every month on {_listed([f'day {day}' for day in days])}"


def _months_of_year(count: int) -> str:
    return f"every {max(12 // count, 1)} months on the 1st"


def _minutes_of_hour(count: int) -> str:
    return f"every {max(60 // count, 1)} minutes"


def _listed(items: list[str]) -> str:
    return f"{', '.join(items[:-1])} and {items[-1]}"


_NAMED = {
    "hour": _minutes_of_hour,
    "day": _times_of_day,
    "week": _days_of_week,
    "month": _days_of_month,
    "year": _months_of_year,
}

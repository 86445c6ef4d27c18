"""Days, months and times of day in English, and weekdays as codes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import time

from duetime.scheduler.rules.recurrence.rule import DAY_CODES, WORKDAYS
from duetime.scheduler.rules.time.tokens import MONTH_NAMES, WEEKDAY_NAMES, ordinal_text

_NTH = {0: "", 1: "first ", 2: "second ", 3: "third ", 4: "fourth ", 5: "fifth ", -1: "last "}


def weekday_codes(days: frozenset[tuple[int, int]]) -> list[str]:
    """Return weekdays as an RRULE writes them, `MO` or `-1FR`, in the order in which they are named."""
    return [f"{nth or ''}{DAY_CODES[day]}" for nth, day in _ordered(days)]


def weekdays_text(days: frozenset[tuple[int, int]]) -> str:
    """Write `weekdays`, `Monday and Friday` or `the last Friday`."""
    if days == WORKDAYS:
        return "weekdays"
    return listed(f"{_nth(nth)}{WEEKDAY_NAMES[day]}" for nth, day in _ordered(days))


def _ordered(days: frozenset[tuple[int, int]]) -> list[tuple[int, int]]:
    return sorted(days, key=lambda found: (found[0] < 0, found))


def _nth(nth: int) -> str:
    if nth in _NTH:
        return f"the {_NTH[nth]}" if nth else ""
    return f"the {ordinal_text(abs(nth))} {'last ' if nth < 0 else ''}"


def workdays_text(positions: frozenset[int]) -> str:
    """Write `the first and last weekday`, of a month."""
    from_the_start = sorted(positions, key=lambda nth: (nth < 0, nth))
    return f"the {listed(_nth(nth).removeprefix('the ').strip() for nth in from_the_start)} weekday"


def monthdays_text(days: frozenset[int]) -> str:
    """Write `the 1st, 15th and last day`; nothing for no day."""
    names = [ordinal_text(day) for day in sorted(days) if day > 0]
    names += ["last day" if day == -1 else f"{ordinal_text(-day)} last day" for day in sorted(days) if day < 0]
    return f"the {listed(names)}" if names else ""


def months_text(months: Iterable[int]) -> str:
    """Write `July and August`."""
    return listed(MONTH_NAMES[month - 1] for month in months)


def date_text(day: int, month: int) -> str:
    """Write `5 May`."""
    return f"{day} {MONTH_NAMES[month - 1]}"


def time_text(found: time) -> str:
    """Write a time of day: `09:00`, with seconds only where there are some."""
    return f"{found:%H:%M:%S}" if found.second else f"{found:%H:%M}"


def listed(items: Iterable[str]) -> str:
    """Join names as people do: `a, b and c`."""
    *most, last = list(items) or [""]
    return f"{', '.join(most)} and {last}" if most else last

"""Five-field cron: minute, hour, day of month, month, day of week.

As in Vixie cron, a day matches either field when both day fields are restricted; a field that begins with `*` is not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from duetime.scheduler.rules.recurrence.rule import DAILY, MINUTELY, NO_VALUES, Rule
from duetime.scheduler.rules.time.tokens import MONTH_NAMES, WEEKDAY_NAMES, Misread

MACROS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_MONTHS = {name[:3].lower(): str(number) for number, name in enumerate(MONTH_NAMES, 1)}
_DAYS = {name[:3].lower(): str(number % 7) for number, name in enumerate(WEEKDAY_NAMES, 1)}
_NAMES: tuple[dict[str, str], ...] = ({}, {}, {}, _MONTHS, _DAYS)
_PART = re.compile(r"(\*|[0-9]{1,4}(?:-[0-9]{1,4})?)(?:/([0-9]{1,4}))?")
_LOOKS = re.compile(r"[*0-9][-*0-9,/]*|@[a-z]+")
_EXAMPLE = "0 9 * * 1-5"


def looks_like(text: str) -> bool:
    """Whether a text means to be cron: its first field is no word."""
    fields = text.split()
    if not all(_LOOKS.fullmatch(field) for field in fields[:2]):  # `3 times a week` has words where cron has numbers
        return False
    return text.strip().startswith("@") or len(fields) >= len(_FIELDS) - 1


def _five_of(fields: Sequence[str]) -> str:
    """Return cron of another dialect, with seconds before its fields or a year after them, in five; else an example."""
    has_year = len(fields) == len(_FIELDS) + 1 and fields[-1] == "*" and fields[-2] not in {"*", "?"}
    five = " ".join("*" if field == "?" else field for field in (fields[:5] if has_year else fields[1:6]))
    if len(fields) <= len(_FIELDS):
        return _EXAMPLE
    try:
        parse(five)
    except Misread:
        return _EXAMPLE
    return five


def parse(text: str) -> Rule:
    """Read a cron expression; raise `Misread` naming the field that is wrong."""
    fields = MACROS.get(text.strip().lower(), text.lower()).split()
    if len(fields) != len(_FIELDS):
        raise Misread(f"cron has five fields (minute hour day month weekday), not {len(fields)}", _five_of(fields))
    written = [_numbered(field, names) for field, names in zip(fields, _NAMES, strict=True)]
    minutes, hours, monthdays, months, weekdays = (
        _values(field, *spec) for field, spec in zip(written, _FIELDS, strict=True)
    )
    every_hour = len(hours) == 24  # noqa: PLR2004 - the hours of a day
    return Rule(
        freq=MINUTELY if every_hour else DAILY,
        minutes=minutes,
        hours=NO_VALUES if every_hour else hours,
        months=_restricted(months, 12),
        monthdays=_restricted(monthdays, 31),
        weekdays=frozenset((0, (day - 1) % 7) for day in _restricted(frozenset(day % 7 for day in weekdays), 7)),
        either=not written[2].startswith("*") and not written[4].startswith("*"),
        cron=" ".join(written),
    )


def _restricted(values: frozenset[int], full: int) -> frozenset[int]:
    """Return no values for all of them; the last day (-1) adds nothing to the days 1 to 31."""
    return NO_VALUES if len(values - {-1}) == full else values


def _numbered(field: str, names: dict[str, str]) -> str:
    return re.sub(r"[a-z]+", lambda word: names.get(word[0], word[0]), field)


def _values(field: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        if part == "l" and name == "day of month":
            found.add(-1)
        else:
            found.update(_part(part, name, low, high))
    return frozenset(found)


def _part(part: str, name: str, low: int, high: int) -> range:
    match = _PART.fullmatch(part)
    if match is None:
        raise Misread(f"cron's {name} cannot be {part[:20]!r}", _EXAMPLE)
    first, last = _bounds(match[1], stepped=match[2] is not None, low=low, high=high)
    step = int(match[2] or 1)
    if step > high:
        raise Misread(f"cron's {name} cannot go in steps of {step}, it starts again after {high}", _EXAMPLE)
    if not low <= first <= last <= high or step < 1:
        raise Misread(f"cron's {name} goes from {low} to {high}, {part[:20]!r} does not", _EXAMPLE)
    return range(first, last + 1, step)


def _bounds(span: str, *, stepped: bool, low: int, high: int) -> tuple[int, int]:
    if span == "*":
        return low, high
    first, _, last = span.partition("-")
    return int(first), int(last or (high if stepped else first))

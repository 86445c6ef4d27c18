"""Lists of days in words: `monday and thursday`, `mon-fri`, `the first and third monday`, `the 1st`, `3 march`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time

from duetime.scheduler.rules.recurrence.rule import MAX_WORKDAYS, WORKDAYS
from duetime.scheduler.rules.time.durations import Span, read_span
from duetime.scheduler.rules.time.offsets import the_day
from duetime.scheduler.rules.time.tokens import MONTHS, ORDINAL_INDEX, WEEKDAY_NAMES, WEEKDAYS, Misread, Tokens, ordinal

_MONDAY_TO_FRIDAY, _WEEKEND = range(5), range(5, 7)

_WEEKDAYS = WEEKDAYS | {f"{name.lower()}s": index for index, name in enumerate(WEEKDAY_NAMES)}
_GROUPS = {**dict.fromkeys(("weekday", "weekdays", "workday", "workdays"), _MONDAY_TO_FRIDAY),
           **dict.fromkeys(("weekend", "weekends"), _WEEKEND)}  # fmt: skip
_INITIALS = {"m / w / f": (0, 2, 4), "mwf": (0, 2, 4), "m , w , f": (0, 2, 4), "t / th": (1, 3), "tu / th": (1, 3)}
_MONTH_PHRASES = ("of the month", "of every month", "of each month", "of a month", "each month", "every month")
_QUARTER_PHRASES = (
    "of the quarter",
    "of every quarter",
    "of each quarter",
    "of a quarter",
    "each quarter",
    "every quarter",
)
_YEAR_PHRASES = ("of the year", "of every year", "of each year", "of a year")
_EDGE_MONTHS = {
    **{words: {1: {1, 4, 7, 10}, -1: {3, 6, 9, 12}} for words in _QUARTER_PHRASES},
    **{words: {1: {1}, -1: {12}} for words in _YEAR_PHRASES},
}
"""Words for a period, with the months in which its first and its last day are."""

_EDGES = {
    period: re.compile(
        rf"^(?:(?:{period}ly|every {period}|every|each)\b ?)?(?:(?:at|on) )?(?:the )?"
        rf"(?:(?:(?P<start>start|beginning)|end) of (?:(?:the|every|each|a) )?{period}|{period}[- ]end)\b(?! to\b)",
        re.IGNORECASE,
    )
    for period in ("month", "quarter", "year")
}
_DAY_OF_QUARTER = re.compile(
    r"^(?:quarterly|(?:every|each) quarter) (?:at|on) the "
    r"((?:first|last) (?:(?:business |working )?day|\w+day))\b(?! (?:of|and)\b|,)",
    re.IGNORECASE,
)
_MAX_MONTH_DAYS, _SHORTEST_MONTH_DAYS = 31, 28


def edge_as_day(text: str) -> str:
    """Return a recurrence that begins with an edge of a period with the first or the last day of it instead."""
    for period, edge in _EDGES.items():
        if found := edge.match(text.strip()):
            return f"{'first' if found['start'] else 'last'} day of the {period}{text.strip()[found.end() :]}"
    return _DAY_OF_QUARTER.sub(r"\1 of the quarter", text.strip())


@dataclass(frozen=True, slots=True)
class Window:
    """Two times of day, both included; the second is of the next day when it is before the first.

    `stepped` is the whole text with a step in the window, `before_midnight` with a window that ends at midnight.
    """

    first: time
    last: time
    stepped: str = ""
    before_midnight: str = ""


@dataclass(slots=True)
class Excluded:
    """Days of the week, months, and the public holidays of a calendar that the words leave out."""

    weekdays: set[int] = field(default_factory=set)
    months: set[int] = field(default_factory=set)
    holidays: str = ""

    def __bool__(self) -> bool:
        """Whether anything is left out."""
        return bool(self.weekdays or self.months or self.holidays)


@dataclass(slots=True)
class Draft:
    """The part of a rule that the words have given so far."""

    freq: str = ""
    interval: int = 1
    months: set[int] = field(default_factory=set)
    monthdays: set[int] = field(default_factory=set)
    weekdays: set[tuple[int, int]] = field(default_factory=set)
    workdays: set[int] = field(default_factory=set)
    """Positions among the weekdays of a month: -1 is the last."""
    minutes: set[int] = field(default_factory=set)
    times: set[time] = field(default_factory=set)
    window: Window | None = None
    step: int = 0
    excluded: Excluded = field(default_factory=Excluded)
    calendar: str = ""
    """The calendar of public holidays that the words mean where they name none, empty where none is configured."""
    today: date | None = None
    """The day from which dates are read."""
    dates: int = 0
    monthly: bool = False
    until: datetime | date | None = None
    count: int | None = None
    span: tuple[int, str] | None = None
    """The length of time for which the words say it recurs: so many of a unit."""
    ends_by_clock: bool = False
    """Whether the words end it at a time of day, without the date."""
    times_of_day: int = 0
    """The number of times of day that `twice a day` asks for, 0 when the words do not say."""
    day_lists: int = 0


def read_days(row: Tokens, draft: Draft) -> bool:
    """Read a list of days into the draft if one comes next."""
    if not _item(row, draft):
        return False
    while row.attempt(_next_item, draft):
        pass
    draft.day_lists += 1
    draft.monthly = any(row.phrase(words) for words in _MONTH_PHRASES) or draft.monthly
    months = next((months for words, months in _EDGE_MONTHS.items() if row.phrase(words)), None)
    if months:
        _set_edge_months(draft, months)
    if draft.dates > 1 and len(draft.months) > 1:
        raise Misread("several dates of different months need a task each", "every year on 3 march")
    return True


def _set_edge_months(draft: Draft, months: Mapping[int, set[int]]) -> None:
    """Set the month of a quarter or of a year in which its first or last day is."""
    places = draft.monthdays | draft.workdays | {nth for nth, _ in draft.weekdays}
    if len(places) > 1 or not places <= months.keys():
        raise Misread("the month of the period is not clear", "every 3 months on the 15th")
    draft.months |= months[places.pop()]
    draft.monthly = True


def _next_item(row: Tokens, draft: Draft) -> bool:
    return join(row) and _item(row, draft)


def join(row: Tokens) -> bool:
    """Read what stands between two items of a list."""
    comma = row.accept(",", "/", "&")
    return row.accept("and", "&") or comma


def _item(row: Tokens, draft: Draft) -> bool:
    readers = (_weekdays, _group, _nth, _edge, _before, _date, _monthday)
    return any(row.attempt(read, draft) for read in readers)


def _weekdays(row: Tokens, draft: Draft) -> bool:
    initials = next((days for text, days in _INITIALS.items() if row.phrase(text)), ())
    draft.weekdays |= {(0, day) for day in initials}
    first = row.one_of(_WEEKDAYS)
    if first is None:
        return bool(initials)
    last = row.attempt(_range_end)
    days = range(first, first + 1 if last is None else first + (last - first) % 7 + 1)
    draft.weekdays |= {(0, day % 7) for day in days}
    return True


def _range_end(row: Tokens) -> int | None:
    return row.one_of(_WEEKDAYS) if row.accept("-", "to", "through", "till") else None


def _group(row: Tokens, draft: Draft) -> bool:
    if row.accept("business", "working"):
        found: range | None = _MONDAY_TO_FRIDAY if row.accept("day", "days") else None
        draft.excluded.holidays = draft.excluded.holidays or draft.calendar
    else:
        found = row.one_of(_GROUPS)
        _ = found == _WEEKEND and row.accept("day", "days")
    draft.weekdays |= {(0, day) for day in found or ()}
    return found is not None


def _nth(row: Tokens, draft: Draft) -> bool:
    """Read `the first and third monday`, or `the last business day`."""
    row.accept("the")
    ordinals = [_ordinal(row)]
    while (more := row.attempt(lambda row: _ordinal(row) if join(row) else None)) is not None:
        ordinals.append(more)
    if None in ordinals:
        return False
    positions = {nth for nth in ordinals if nth is not None}
    weekday = row.one_of(_WEEKDAYS)
    if weekday is None:
        return _workdays(row, draft, positions)
    if max(positions) > max(ORDINAL_INDEX.values()):
        raise Misread("no month has that many of a weekday", "every last friday of the month")
    draft.weekdays |= {(nth, weekday) for nth in positions}
    return True


def _workdays(row: Tokens, draft: Draft, positions: set[int]) -> bool:
    """Read the `business day` of `the last business day`: no public holiday, where a calendar of them is configured."""
    group = Draft(calendar=draft.calendar)
    if not _group(row, group) or group.weekdays != WORKDAYS:
        return False
    if max(positions) > MAX_WORKDAYS:
        raise Misread("no month has that many weekdays", "every month on the last business day")
    draft.workdays |= positions
    draft.excluded.holidays = draft.excluded.holidays or group.excluded.holidays
    return True


def _ordinal(row: Tokens) -> int | None:
    row.accept("the")
    found = row.one_of(ORDINAL_INDEX)
    return ordinal(row.take()) if found is None else found


def _edge(row: Tokens, draft: Draft) -> bool:
    """Read `the last day`."""
    row.accept("the")
    found = row.one_of({"first": 1, "last": -1})
    if found is None or not row.accept("day"):
        return False
    draft.monthdays.add(found)
    draft.monthly = True
    return True


def _date(row: Tokens, draft: Draft) -> bool:
    """Read `3 march`, `march 3rd`, `the 3rd of march`."""
    row.accept("the")
    month = row.one_of(MONTHS)
    day = _number(row)
    if month is None and day is not None:
        row.accept("of")
        month = row.one_of(MONTHS)
    if month is None or day is None:
        return False
    draft.months.add(month)
    draft.monthdays.add(day)
    draft.dates += 1
    return True


def _monthday(row: Tokens, draft: Draft) -> bool:
    """Read `the 15th`, `day 15` or `the first of every month`."""
    row.accept("the")
    if row.peek() in ORDINAL_INDEX and row.peek(1) == "of":
        draft.monthdays.add(ORDINAL_INDEX[row.take()])
        return True
    day = _number(row) if row.accept("day") or ordinal(row.peek()) is not None else None
    if day is None:
        return False
    draft.monthdays.add(day)
    return True


def _before(row: Tokens, draft: Draft) -> bool:
    """Read `the day before the 1st`, which is the last of the month before."""
    span = the_day(row) or read_span(row)
    if span is None or span != Span(days=span.days) or not row.accept("before"):
        return False
    row.accept("the")
    nth = ordinal(row.take())
    if nth is None or nth > _SHORTEST_MONTH_DAYS or not 0 < span.days < _SHORTEST_MONTH_DAYS:
        return False
    day = nth - span.days
    draft.monthdays.add(day if day > 0 else day - 1)
    return True


def _number(row: Tokens) -> int | None:
    token = row.take()
    found = int(token) if token.isdigit() and len(token) < 3 else ordinal(token)  # noqa: PLR2004 - two digits
    if found is not None and not 1 <= found <= _MAX_MONTH_DAYS:
        raise Misread(f"no month has a day {token}", "every month on the last day")
    return found

"""The bounds of filters: `friday`, `last night`, `12h`. They point into the past, unless they say otherwise.

A day is its start here, and so is a part of a day, a week or a month. `since yesterday evening` hides nothing that
happened that evening. An end that may lie ahead (`ahead`) is read forwards instead, and the present week, `by friday`
and `end of month` are all of that.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from duetime.scheduler.rules.time import durations, parser, zones
from duetime.scheduler.rules.time.ambiguity import refuse_vague
from duetime.scheduler.rules.time.days.calendar_day import Day, add_months, make_date, next_start, start_of
from duetime.scheduler.rules.time.days.numeric_dates import iso_date
from duetime.scheduler.rules.time.days.periods import END_OF_DAY
from duetime.scheduler.rules.time.durations import UNITS, Span
from duetime.scheduler.rules.time.offsets import LATE_HOURS, refuse_bare_hour
from duetime.scheduler.rules.time.time_of_day import PART_HOURS, Clock
from duetime.scheduler.rules.time.tokens import (
    MAX_PHRASE_CHARS,
    MONTHS,
    WEEKDAYS,
    Misread,
    Tokens,
    Unknown,
    is_year,
    normal,
    tokens,
)
from duetime.scheduler.rules.time.viewpoint import Frame, Viewpoint
from duetime.scheduler.rules.time.windows import refuse_window

_DAY, _DAY_HOURS = timedelta(days=1), 24
_LEAD = re.compile(r"(?:since|from|after|before|starting|(until|till?|by|through|thru|up to|not? later than)) ")
_UNITS = {name: name for name in ("day", "week", "month", "quarter", "year")}
_EARLIER_DAYS = {"week": (0, 7), "month": (0, 31, 62), "year": (0, 365, 1461, 2922)}
"""Days back in which a day that comes every week, month or year is looked for; 29 February comes in eight years."""


def read_bound(
    text: str,
    *,
    now: datetime,
    zone: ZoneInfo,
    ahead: bool = False,
    end: datetime | None = None,
    holidays: str = "",
    whole: bool = False,
) -> datetime:
    """Return the instant (UTC) that bounds a filter; raise `Misread` or `Unknown`.

    With `whole` both bounds are of one day: with `ahead` its end, else its start, which is the last before `end`.

    `ahead` reads what names no direction as what is to come: `friday`, `20:00`, `12h`. A day or a time of day is also
    read so where it then lies before the `end` of the filter. From 14:00 to 18:00 are hours of one day.
    """
    if len(text) > MAX_PHRASE_CHARS:
        raise Misread(f"is longer than {MAX_PHRASE_CHARS} characters")
    phrase, named, _ = zones.split_zone(text.strip(), None)
    view = Viewpoint(now.astimezone(UTC), named or zone, Frame(holidays=holidays))
    refuse_window(normal(phrase), view.today, view.frame.holidays)
    lead = _LEAD.match(normal(phrase))
    clean = normal(phrase)[lead.end() if lead else 0 :]
    clean = _of_clock(clean) if lead else clean
    refuse_vague(clean, view.now)
    if clean == "now":
        return view.now
    exact = parser.read_exact(clean, view)
    if exact is not None:
        return exact.candidates[0][0].astimezone(UTC)
    found = _distance(clean, view, ahead=ahead)
    through = (whole and ahead) or bool(lead and (lead[1] or "").startswith("thr"))
    whole = whole or (ahead and bool(lead and lead[1]))
    return found or _started(iso_date(clean), view, ahead=ahead, end=end, whole=whole, through=through)


def _of_clock(clean: str) -> str:
    """Return the hour alone of `by 17` as a clock shows it; raise `Misread` for one of either half of the day."""
    refuse_bare_hour(tokens(clean))
    return f"{clean}:00" if clean in LATE_HOURS else clean


def _distance(clean: str, view: Viewpoint, *, ahead: bool) -> datetime | None:
    """Read `12h`, `2 days ago`, `the last 24 hours`, `past week`, `in 3 days`, `PT2H`."""
    if clean.startswith("pt") or clean[:2].rstrip("0123456789") == "p":
        return _moved(durations.parse_span(clean), view, 1 if ahead else -1)
    row = tokens(clean)
    _ = row.peek(1) in {"+", "-"} and row.accept("now")
    sign = _sign(row)
    span = durations.read_span(row) or (row.attempt(_one) if sign < 0 else None)
    if span is None:
        return None
    if row.accept("ago"):
        sign = -1
    elif row.phrase("from now"):
        sign = 1
    return _moved(span, view, sign or (1 if ahead else -1)) if row.done else None


def _sign(row: Tokens) -> int:
    """Read the direction in front of a distance: 1 ahead, -1 back, 0 when it does not say."""
    if row.accept("in", "+", "within"):
        return 1
    _ = row.accept("the")
    if row.peek() == "last" and row.peek(1) in {"week", "month", "year", *WEEKDAYS}:
        return 0
    return -1 if row.accept("-", "last", "past", "previous") else 0


def _one(row: Tokens) -> Span | None:
    """Read the unit of `past week` and `last hour`."""
    unit = row.one_of(UNITS)
    return durations.span_of(1, unit) if unit else None


def _moved(span: Span, view: Viewpoint, sign: int) -> datetime:
    start = view.wall
    day = add_months(start.date(), sign * span.months) + sign * timedelta(days=span.days)
    instant = zones.place(datetime.combine(day, start.time()), view.known()).instant
    return (instant if span.months or span.days else view.now) + sign * span.elapsed


def _started(clean: str, view: Viewpoint, *, ahead: bool, end: datetime | None, whole: bool, through: bool) -> datetime:
    """Read a day, a part of a day, a period or a time of day, and return its start, or with `whole` its end."""
    row = tokens(clean)
    today = view.wall.date()
    months = _months(tokens(clean), today)
    if months:
        months = [add_months(month, int(through)) for month in months]
        if len(months) == 1:
            return _placed(months[0], time(), view)
        return _nearest(months, time(), view, ahead=ahead, end=end, whole=whole)
    this = row.attempt(_this, today)
    past = this or row.attempt(_last, today)
    clock, day = (past.clock, past) if past else (None, None)
    if not row.done:
        clock, later = parser.clock_and_day(row, today, view)
        day = past or later
    if past and not row.done:  # `last friday of this month`
        this, row = None, tokens(clean)
        clock, day = parser.clock_and_day(row, today, view)
    if not row.done or (clock is None and day is None):
        raise Unknown("is not understood")
    ends = ahead if whole else _is_end(day) or (ahead and bool(this and this.period))
    start, beyond = _end(clock, day) if ends else (_start(clock, day), timedelta())
    if day is None or day.every:
        days = _repeated(clean, day, today, view)
        if day and whole:
            days = _outermost(days, last=ends)
        return _nearest([_behind(found, day, beyond) for found in days], start, view, ahead=ahead, end=end, whole=whole)
    found = day.candidates[-1 if ends else 0]  # a weekend has two days
    return _placed(_behind(found, day, beyond), start, view)


def _behind(found: date, day: Day | None, beyond: timedelta) -> date:
    """Return a day so far `beyond` one that was found, or behind all of the period that it stands for."""
    return next_start(day.period, found) if beyond and day and day.period else found + beyond


def _is_end(day: Day | None) -> bool:
    """Whether a day is the `end of month`, which a time of day stands for elsewhere."""
    return day is not None and day.clock is not None and day.clock.time == END_OF_DAY


def _end(clock: Clock | None, day: Day | None) -> tuple[time, timedelta]:
    """Return when all of a day, or of a part of it, is over: a time of day, and how far behind that day."""
    given = None if _is_end(day) else clock or (day.clock if day else None)
    hour = PART_HOURS[given.part][1] if given and given.part else _DAY_HOURS
    if given and not given.part:
        return given.time, timedelta()
    return (time(), _DAY) if hour == _DAY_HOURS else (time(hour), timedelta())


def _last(row: Tokens, today: date) -> Day | None:
    """Read `last night`, `last friday`, `last week`, `last weekend`: the one before today, or before this one."""
    _ = row.accept("the")
    if not row.accept("last", "previous"):
        return None
    if row.peek() in PART_HOURS:
        return Day((today - _DAY,))
    weekday = row.one_of(WEEKDAYS)
    if weekday is not None:
        return Day((today - timedelta(days=(today.weekday() - weekday - 1) % 7 + 1),))
    if row.accept("weekend"):
        monday = start_of("week", today)
        return Day((monday - 2 * _DAY,))
    unit = row.one_of(_UNITS) if row.peek() != "day" else None
    return Day((start_of(unit, start_of(unit, today) - _DAY),), period=unit) if unit else None


def _this(row: Tokens, today: date) -> Day | None:
    """Read `this week`, and `this monday` when it is over."""
    if not row.accept("this"):
        return None
    weekday = row.one_of(WEEKDAYS)
    if weekday is not None:
        return Day((start_of("week", today) + timedelta(days=weekday),))
    unit = row.one_of(_UNITS)
    return Day((start_of(unit, today),), period=unit) if unit else None


def _months(row: Tokens, today: date) -> list[date]:
    """Return the first days that `june` can mean, the only one of `june 2026`."""
    month = row.one_of(MONTHS)
    if month is None:
        return []
    years = [int(row.take())] if is_year(row.peek()) else [today.year + ahead for ahead in (-1, 0, 1)]
    return [make_date(year, month, 1) for year in years] if row.done else []


def _repeated(clean: str, day: Day | None, today: date, view: Viewpoint) -> list[date]:
    """Return the days near `today` that a day without a date can be; a time of day alone is on any day."""
    if day is None:
        return [today + _DAY * ahead for ahead in (-1, 0, 1)]
    found = set(day.candidates)
    for back in _EARLIER_DAYS[day.every]:
        earlier = parser.clock_and_day(tokens(clean), today - timedelta(days=back), view)[1]
        found |= set(earlier.candidates if earlier else ())
    return sorted(found)


def _outermost(days: list[date], *, last: bool) -> list[date]:
    """Return the days with no other next to them on that side: a weekend has two."""
    step = _DAY if last else -_DAY
    return [day for day in days if day + step not in days]


def _nearest(
    days: list[date], start: time, view: Viewpoint, *, ahead: bool, end: datetime | None, whole: bool
) -> datetime:
    """Return the latest that is past, or with `ahead` the first to come; a day alone is never today.

    Without `ahead` it is also the first to come where that is before `end`. With `whole` it is the last before that.
    """
    instants = [_placed(day, start, view) for day in days]
    if whole and end is not None and not ahead:
        return [at for at in instants if at < end][-1]
    today = datetime.combine(view.wall.date(), time())
    over = view.now if start != time() else zones.place(today, view.known()).instant - timedelta(microseconds=1)
    coming = next((at for at in instants if at > view.now), None)
    if coming is not None and (ahead or (end is not None and coming < end)):
        return coming
    return [at for at in instants if at <= over][-1]


def _start(clock: Clock | None, day: Day | None) -> time:
    """Return when a part of a day begins, else the time of day; a day alone begins at midnight."""
    given = clock or (None if _is_end(day) else day.clock if day else None)
    if given is None:
        return time()
    return given.time if given.part is None else time(PART_HOURS[given.part][0])


def _placed(day: date, start: time, view: Viewpoint) -> datetime:
    return zones.place(datetime.combine(day, start), view.known()).instant

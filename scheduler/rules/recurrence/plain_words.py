"""Recurrences in plain words: `every weekday at 9:00`, `every 2 weeks on monday`, `monthly on the 1st`, `hourly`."""

from __future__ import annotations

from datetime import date, timedelta

from duetime.scheduler.rules.recurrence.day_lists import Draft, join, read_days
from duetime.scheduler.rules.recurrence.rule import (
    DAILY,
    HOURLY,
    MAX_COUNT,
    MAX_INTERVALS,
    MINUTELY,
    MONTHLY,
    WEEKLY,
    YEARLY,
    Rule,
)
from duetime.scheduler.rules.time import dates
from duetime.scheduler.rules.time.durations import UNITS, Span, read_span
from duetime.scheduler.rules.time.time_of_day import Clock, read_clock
from duetime.scheduler.rules.time.tokens import MONTHS, NUMBERS, WEEKDAYS, Misread, Tokens, Unknown, tokens

_ADVERBS = {
    "hourly": (HOURLY, 1), "daily": (DAILY, 1), "nightly": (DAILY, 1), "weekly": (WEEKLY, 1),
    "fortnightly": (WEEKLY, 2), "monthly": (MONTHLY, 1), "quarterly": (MONTHLY, 3), "yearly": (YEARLY, 1),
    "annually": (YEARLY, 1),
}  # fmt: skip
_UNIT_FREQ = {"minute": MINUTELY, "hour": HOURLY, "day": DAILY, "week": WEEKLY, "month": MONTHLY, "year": YEARLY}
_TWICE_MEANT = frozenset({"biweekly", "bimonthly", "biannual", "biannually", "bi"})
_PARTS = frozenset({"morning", "afternoon", "evening", "night", "noon", "midnight", "midday"})
_BOTH = "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13"
_COUNTED = ("times", "time", "occurrences")
_MINUTE = timedelta(minutes=1)


def parse(text: str, today: date) -> Rule:
    """Read a recurrence in words; `today` is the day it starts.

    Raises `Misread` with what is wrong, or `Unknown` if it is in no known form.
    """
    row = tokens(text)
    draft = Draft()
    row.attempt(_times, draft)
    _head(row, draft)
    while not row.done:  # every clause takes a token, or it is none
        listed, days, start = row.accept(","), draft.day_lists, row.position
        if not (_clause(row, draft) or _end(row, draft, today)):
            raise _unknown(row)
        mixed = draft.monthdays and draft.weekdays
        if days and draft.day_lists > days and not listed and not mixed:
            raise Misread("names its days twice", f"every {row.since(start).removeprefix('on ')}")
    return _rule(draft)


def _head(row: Tokens, draft: Draft) -> None:
    if row.peek() in _TWICE_MEANT:
        raise Misread(f"{row.peek()} can mean twice in one or once in two", "every 2 weeks on monday")
    adverb = row.one_of(_ADVERBS)
    if adverb is not None:
        draft.freq, draft.interval = adverb
        return
    row.accept("once")
    each = row.accept("every", "each") or (row.peek(-1) == "once" and row.accept("a", "an", "per"))
    row.accept("on")
    if each and (_interval(row, draft) or _daypart(row, draft)):
        return
    if not _selected(row, draft):
        raise Unknown("is not understood")


def _selected(row: Tokens, draft: Draft) -> bool:
    """Read the days of `every monday`, `every first monday of the month`, `every 15th`."""
    start = row.peek(), row.peek(1)
    if not read_days(row, draft):
        return False
    nth = [nth for nth, _ in draft.weekdays if nth > 1]
    if nth and not draft.monthly:
        shown = " ".join(start)
        raise Misread(
            f"every {shown} can mean one in several weeks, or that one of each month", f"every {shown} of the month"
        )
    return True


def _daypart(row: Tokens, draft: Draft) -> bool:
    if row.peek() in _PARTS:
        draft.freq = DAILY
    return bool(draft.freq)


def _interval(row: Tokens, draft: Draft) -> bool:
    """Read `2 weeks`, `day`, `other day`, `other tuesday`, `1h30m`."""
    if row.peek() == "second" and row.peek(1) in WEEKDAYS:
        return False
    if row.accept("other") or (row.peek(1) in UNITS and row.accept("second")):
        draft.interval = 2
        if row.peek() in WEEKDAYS:
            draft.freq = WEEKLY
            return read_days(row, draft)
    unit = row.one_of(UNITS)
    if unit is not None:
        return _unit(unit, draft)
    span = row.attempt(_length)
    return span is not None and _span(span, draft)


def _length(row: Tokens) -> Span | None:
    if row.phrase("half hour"):
        return Span(elapsed=timedelta(minutes=30))
    return read_span(row)


def _unit(unit: str, draft: Draft) -> bool:
    if unit == "second":
        raise Misread("that is more often than once a minute", "every minute")
    if unit == "fortnight":
        unit, draft.interval = "week", draft.interval * 2
    draft.freq = _UNIT_FREQ[unit]
    return True


def _span(span: Span, draft: Draft) -> bool:
    """Turn a length of time into a frequency and an interval."""
    kinds = [kind for kind in (span.months, span.days, span.elapsed) if kind]
    if not kinds:
        raise Misread("an interval of zero is not allowed", "every 15 minutes")
    if len(kinds) > 1:
        raise Misread("an interval is either of the calendar (days, weeks, months) or of hours and minutes")
    if span.elapsed:
        draft.freq, draft.interval = _elapsed(span.elapsed)
    elif span.days:
        draft.freq, draft.interval = (DAILY, span.days) if span.days % 7 else (WEEKLY, span.days // 7)
    else:
        draft.freq, draft.interval = (MONTHLY, span.months) if span.months % 12 else (YEARLY, span.months // 12)
    return True


def _elapsed(length: timedelta) -> tuple[str, int]:
    if length < _MINUTE:
        raise Misread("that is more often than once a minute", "every minute")
    if length % _MINUTE:
        raise Misread("an interval is of whole minutes", f"every {length // _MINUTE} minutes")
    minutes = length // _MINUTE
    return (MINUTELY, minutes) if minutes % 60 else (HOURLY, minutes // 60)


def _clause(row: Tokens, draft: Draft) -> bool:
    return any(row.attempt(read, draft) for read in (_past_the_hour, _times, _months, _on))


def _on(row: Tokens, draft: Draft) -> bool:
    row.accept("on")
    return read_days(row, draft)


def _past_the_hour(row: Tokens, draft: Draft) -> bool:
    """Read `at :15 and :45` or `at minute 15`."""
    row.accept("at")
    first = found = _minutes(row)
    while found is not None:
        draft.minutes.add(found)
        found = row.attempt(lambda row: _minutes(row) if join(row) else None)
    return first is not None


def _minutes(row: Tokens) -> int | None:
    if not (row.peek().startswith(":") or row.accept("minute")):
        return None
    token = row.take().removeprefix(":")
    if not token.isdigit() or int(token[:4]) > 59:  # noqa: PLR2004 - minutes of an hour
        raise Misread("a minute of the hour is 00 to 59", "every hour at :15")
    return int(token)


def _times(row: Tokens, draft: Draft) -> bool:
    part = row.peek() in _PARTS
    first = read_clock(row)
    if first is None:
        return False
    if draft.times:
        raise Misread("several times of day are joined by `and`", "every day at 8:00 and 18:00")
    draft.times.add(first.time)
    while more := row.attempt(_next_time):
        if part and not more.halved:
            raise Misread("it is not clear which half of the day is meant", "every day at 18:00 and 20:00")
        draft.times.add(more.time)
    return True


def _next_time(row: Tokens) -> Clock | None:
    if not join(row) or row.peek(1) in _COUNTED:
        return None
    return read_clock(row, bare_hour=True)


def _months(row: Tokens, draft: Draft) -> bool:
    if not row.accept("in", "of"):
        return False
    first = month = row.one_of(MONTHS)
    while month is not None:
        draft.months.add(month)
        month = row.attempt(lambda row: row.one_of(MONTHS) if join(row) else None)
    return first is not None


def _end(row: Tokens, draft: Draft, today: date) -> bool:
    if row.accept("until", "till"):
        day = dates.read_day(row, today)
        draft.until = day.candidates[0] if day else None
        return day is not None
    row.accept("for")
    token = row.take()
    count = int(token[:6]) if token.isdigit() else NUMBERS.get(token)
    if count is None or not row.accept(*_COUNTED):
        return False
    if not 1 <= count <= MAX_COUNT:
        raise Misread(f"it can recur 1 to {MAX_COUNT} times", "every day at 9:00, 10 times")
    draft.count = count
    return True


def _unknown(row: Tokens) -> Misread:
    word = row.peek(-1)
    if word in {"starting", "from", "beginning", "start", "after"}:
        return Misread("the start of a recurrence is `when`", "every weekday at 9:00")
    if word == "between":
        return Misread("hours between two times are said in cron", "*/15 9-16 * * 1-5")
    return Unknown("is not understood")


def _rule(draft: Draft) -> Rule:
    freq = draft.freq or _implied(draft)
    _check(freq, draft)
    return Rule(
        freq,
        draft.interval,
        months=frozenset(draft.months),
        monthdays=frozenset(draft.monthdays),
        weekdays=frozenset(draft.weekdays),
        minutes=frozenset(draft.minutes),
        times=tuple(sorted(draft.times)),
        until=draft.until,
        count=draft.count,
    )


def _implied(draft: Draft) -> str:
    if draft.monthdays:
        return YEARLY if draft.months else MONTHLY
    ordinals = any(nth for nth, _ in draft.weekdays)
    return (YEARLY if draft.months else MONTHLY) if ordinals else WEEKLY


def _check(freq: str, draft: Draft) -> None:
    """Refuse what cannot be meant together."""
    if draft.interval > MAX_INTERVALS[freq]:
        raise Misread("an interval is at most 20 years")
    if draft.until and draft.count:
        raise Misread("an end date and a number of times exclude each other", "every day at 9:00, 10 times")
    if freq in {MINUTELY, HOURLY}:
        _check_sub_daily(freq, draft)
    elif draft.minutes:
        raise Misread("minutes of the hour need `every hour`", "every hour at :15")
    _check_days(freq, draft)


def _check_sub_daily(freq: str, draft: Draft) -> None:
    if draft.times:
        raise Misread("an interval of minutes or hours has no time of day: it starts at `when`", "every day at 9:00")
    if draft.minutes and freq != HOURLY:
        raise Misread("minutes of the hour need `every hour`", "every hour at :15")


def _check_days(freq: str, draft: Draft) -> None:
    ordinals = {bool(nth) for nth, _ in draft.weekdays}
    if len(ordinals) > 1 or (draft.monthdays and draft.weekdays):
        raise Misread("month days, weekdays and nth weekdays cannot be mixed in one recurrence", _BOTH)
    if (draft.monthdays or True in ordinals) and freq not in {MONTHLY, YEARLY}:
        raise Misread("days of the month go with `every month`", "every month on the 1st")
    if freq in {MONTHLY, YEARLY} and False in ordinals:
        raise Misread("it is not clear which of the month's weekdays are meant", "every month on the first monday")
    if freq == YEARLY and (draft.monthdays or ordinals) and not draft.months:
        raise Misread("a day of the year needs its month", "every year on 3 march")

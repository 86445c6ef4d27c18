"""Recurrences in plain words: `every weekday at 9:00`, `every 2 weeks on monday`, `monthly on the 1st`, `hourly`."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.rules.recurrence.rule import (
    DAILY,
    HOURLY,
    MAX_INTERVALS,
    MONTHLY,
    RARE_NOTE,
    SUB_DAILY,
    WEEKLY,
    WORKDAYS,
    YEARLY,
    Rule,
)
from duetime.scheduler.rules.recurrence.words.all_times import check_all_times, without_all_times
from duetime.scheduler.rules.recurrence.words.begins import begins
from duetime.scheduler.rules.recurrence.words.daily_window import dashed_hours, read_step, read_window, set_times
from duetime.scheduler.rules.recurrence.words.day_lists import Draft, edge_as_day, join, read_days
from duetime.scheduler.rules.recurrence.words.ends import COUNT_WORDS, count_in_span, read_end
from duetime.scheduler.rules.recurrence.words.exceptions import (
    leave_out,
    read_exception,
    refuse_exception_alone,
    refuse_holidays_alone,
)
from duetime.scheduler.rules.recurrence.words.intervals import ISO_TIME, read_interval
from duetime.scheduler.rules.recurrence.words.times_per_period import read_times_per_period
from duetime.scheduler.rules.time.ambiguity import refuse_occasions
from duetime.scheduler.rules.time.time_of_day import Clock, OutOfPart, read_clock
from duetime.scheduler.rules.time.tokens import MONTHS, NUMBERS, WEEKDAY_NAMES, Misread, Tokens, Unknown, normal, tokens

_ADVERBS = {
    "hourly": (HOURLY, 1), "daily": (DAILY, 1), "nightly": (DAILY, 1), "weekly": (WEEKLY, 1),
    "fortnightly": (WEEKLY, 2), "monthly": (MONTHLY, 1), "quarterly": (MONTHLY, 3), "yearly": (YEARLY, 1),
    "annually": (YEARLY, 1),
}  # fmt: skip
_TWICE_MEANT = frozenset({"biweekly", "bimonthly", "biannual", "biannually", "bi"})
_PARTS = frozenset({"morning", "afternoon", "evening", "night", "noon", "midnight", "midday"})
_NAMED_MINUTES = {"quarter past": 15, "half past": 30, "quarter to": 45}
_BOTH = "FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13"


def parse(text: str, start: datetime, holidays: str = "") -> Rule:
    """Read a recurrence in words; `start` is the local time of its start, `holidays` the configured calendar of them.

    Raises `Misread` with what is wrong, or `Unknown` if it is in no known form.
    """
    refuse_occasions(normal(text))
    row = tokens(edge_as_day(without_all_times(text.replace(RARE_NOTE, ""))))
    draft = Draft(calendar=holidays, today=start.date())
    row.attempt(_times, draft)
    _head(row, draft)
    while not row.done:  # every clause takes a token, or it is none
        listed, days, began = row.accept(","), draft.day_lists, row.position
        if not (_clause(row, draft) or read_end(row, draft, start)):
            raise _unknown(row, draft, start)
        mixed = draft.monthdays and draft.weekdays
        if days and draft.day_lists > days and not listed and not mixed:
            raise Misread("names its days twice", f"every {row.since(began).removeprefix('on ')}")
    rule = _rule(draft)
    check_all_times(text, rule)
    return rule


def _head(row: Tokens, draft: Draft) -> None:
    if row.done and draft.times:
        raise Misread("it does not say on which days", f"every day {row.since(0)}")
    if row.peek() in _TWICE_MEANT:
        word = row.take()
        rest = row.rest if word == "biweekly" and row.peek().isalnum() else "on monday"
        raise Misread(f"{word} can mean twice in one or once in two", f"every 2 weeks {rest}")
    adverb = row.one_of(_ADVERBS)
    if adverb is not None:
        draft.freq, draft.interval = adverb
        return
    if read_times_per_period(row, draft):
        return
    refuse_exception_alone(row)
    row.accept("once")
    each = (
        row.accept("every", "each")
        or row.peek() == "alternate"
        or (row.peek(-1) == "once" and row.accept("a", "an", "per"))
        or row.peek() == ISO_TIME
    )
    row.accept("on")
    if each and (read_interval(row, draft) or _daypart(row, draft)):
        return
    if not _selected(row, draft):
        refuse_holidays_alone(row)
        raise Unknown("is not understood")


def _selected(row: Tokens, draft: Draft) -> bool:
    """Read the days of `every monday`, `every first monday of the month`, `every 15th`."""
    start = row.position
    if not read_days(row, draft):
        return False
    (nth, weekday), *others = draft.weekdays or {(0, 0)}
    if draft.workdays and max(draft.workdays) > 1 and not draft.monthly:
        raise Misread(
            "it is not clear whether those of a month are meant",
            f"on the {row.since(start).removeprefix('the ')} of every month{_rest(row)}",
        )
    if nth > 1 and not others and not draft.monthly:
        raise _one_in_several(row, row.since(start), nth, WEEKDAY_NAMES[weekday].lower())
    return True


def _one_in_several(row: Tokens, ordinal: str, nth: int, weekday: str) -> Misread:
    """Refuse `every second tuesday`, with both of its readings."""
    words = ordinal.removeprefix("the ").split()[0]
    rest = _rest(row)
    return Misread(
        f"every {ordinal} can mean one in {nth} weeks, or that one of each month",
        f"every {nth} weeks on {weekday}{rest}",
        f"on the {words} {weekday} of every month{rest}",
    )


def _rest(row: Tokens) -> str:
    return f" {row.rest}" if row.rest else ""


def _daypart(row: Tokens, draft: Draft) -> bool:
    if row.peek() in _PARTS:
        draft.freq = DAILY
        _ = (row.peek(1), row.peek(2)) == ("at", "midnight") and row.accept("night")
    return bool(draft.freq)


def _clause(row: Tokens, draft: Draft) -> bool:
    readers = (_past_the_hour, _times, _months, _on, read_window, read_step, read_exception)
    return any(row.attempt(read, draft) for read in readers)


def _on(row: Tokens, draft: Draft) -> bool:
    row.accept("on")
    return read_days(row, draft)


def _past_the_hour(row: Tokens, draft: Draft) -> bool:
    """Read `at :15 and :45` or `at minute 15`."""
    if (minute := row.attempt(_named_minute)) is not None:
        draft.minutes.add(minute)
        return True
    row.accept("at")
    first = found = _minutes(row)
    while found is not None:
        draft.minutes.add(found)
        found = row.attempt(lambda row: _minutes(row) if join(row) else None)
    return first is not None


def _named_minute(row: Tokens) -> int | None:
    """Read `at quarter past`, without the hour, and `on the hour`."""
    if row.phrase("on the hour"):
        return 0
    row.accept("at")
    row.accept("a")
    found = next((minute for words, minute in _NAMED_MINUTES.items() if row.phrase(words)), None)
    return None if row.peek().isdigit() or row.peek() in NUMBERS else found


def _minutes(row: Tokens) -> int | None:
    if not (row.peek().startswith(":") or row.accept("minute")):
        return None
    token = row.take().removeprefix(":")
    if not token.isdigit() or int(token[:4]) > 59:  # noqa: PLR2004 - minutes of an hour
        raise Misread("a minute of the hour is 00 to 59", "every hour at :15")
    return int(token)


def _times(row: Tokens, draft: Draft) -> bool:
    part = row.peek() in _PARTS
    try:
        first = read_clock(row)
    except OutOfPart as late:
        raise Misread(late.problem, *([f"every day {late.after_midnight}"] if late.after_midnight else ())) from None
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
    if not join(row) or row.peek(1) in COUNT_WORDS:
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


def _unknown(row: Tokens, draft: Draft, start: datetime) -> Misread:
    word = row.peek(-1)
    if hours := dashed_hours(row):
        return Misread("hours between two times need a step", hours)
    if word in {"starting", "from", "beginning", "start", "after"}:
        return begins(row, start, draft.calendar)
    if word in {"until", "till", "til"} and ":" in row.rest and not draft.times:
        return Misread(
            "its times of day are not clear", f"{row.until(row.position - 1)} every hour from 9:00 to {row.rest}"
        )
    if word in {"between", "during"}:
        return Misread("the hours are not clear", f"{row.since(0).removesuffix(word)}between 9:00 and 17:00")
    return Unknown("is not understood")


def _rule(draft: Draft) -> Rule:
    leave_out(draft)
    set_times(draft)
    freq = draft.freq or _implied(draft)
    if draft.workdays and draft.months and (freq, draft.interval) == (YEARLY, 1):
        freq = MONTHLY  # every year in that month
    _check(freq, draft)
    return Rule(
        freq,
        draft.interval,
        months=frozenset(draft.months),
        monthdays=frozenset(draft.monthdays),
        weekdays=WORKDAYS if draft.workdays else frozenset(draft.weekdays),
        positions=frozenset(draft.workdays),
        minutes=frozenset(draft.minutes),
        times=tuple(sorted(draft.times)),
        until=draft.until,
        count=draft.count or count_in_span(freq, draft),
        holidays=draft.excluded.holidays,
    )


def _implied(draft: Draft) -> str:
    if draft.workdays:
        return MONTHLY
    if draft.monthdays:
        return YEARLY if draft.months else MONTHLY
    if not draft.weekdays:
        return DAILY
    ordinals = any(nth for nth, _ in draft.weekdays)
    return (YEARLY if draft.months else MONTHLY) if ordinals else WEEKLY


def _check(freq: str, draft: Draft) -> None:
    """Refuse what cannot be meant together."""
    if draft.times_of_day not in {0, len(draft.times)}:
        raise Misread(f"needs {draft.times_of_day} times of day", "every day at 9:00 and 17:00")
    if draft.interval > MAX_INTERVALS[freq]:
        raise Misread("an interval is at most 20 years")
    if draft.until and (draft.count or draft.span):
        raise Misread("an end date and a number of times exclude each other", "every day at 9:00, 10 times")
    if draft.ends_by_clock and (draft.weekdays or draft.monthdays or draft.months or draft.window or draft.excluded):
        raise Misread("it is not clear whether it ends then for good", "every 15 minutes between 9:00 and 12:00")
    if freq in SUB_DAILY:
        _check_sub_daily(freq, draft)
    elif draft.minutes:
        raise Misread("minutes of the hour need `every hour`", "every hour at :15")
    _check_days(freq, draft)


def _check_sub_daily(freq: str, draft: Draft) -> None:
    if draft.times:
        raise Misread(
            "an interval of seconds, minutes or hours has no time of day: it starts at `when`", "every day at 9:00"
        )
    if draft.minutes and freq != HOURLY:
        raise Misread("minutes of the hour need `every hour`", "every hour at :15")


def _check_days(freq: str, draft: Draft) -> None:
    ordinals = {bool(nth) for nth, _ in draft.weekdays}
    if len(ordinals) > 1 or (draft.monthdays and draft.weekdays):
        raise Misread("month days, weekdays and nth weekdays cannot be mixed in one recurrence", _BOTH)
    if draft.workdays and (draft.monthdays or draft.weekdays):
        raise Misread("business days of a month go with no other days", "every month on the last business day")
    if draft.workdays and freq != MONTHLY:
        raise Misread("business days of a month go with `every month`", "every month on the last business day")
    if (draft.monthdays or True in ordinals) and freq not in {MONTHLY, YEARLY}:
        raise Misread("days of the month go with `every month`", "every month on the 1st")
    if freq in {MONTHLY, YEARLY} and False in ordinals:
        raise Misread("it is not clear which of the month's weekdays are meant", "every month on the first monday")
    if freq == YEARLY and (draft.monthdays or ordinals) and not draft.months:
        raise Misread("a day of the year needs its month", "every year on 3 march")

"""Days that a recurrence leaves out: `every day except fridays` falls on the other six."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from itertools import islice

from duetime.scheduler.rules.recurrence.rule import DAILY, SUB_DAILY
from duetime.scheduler.rules.recurrence.words.day_lists import Draft, join, read_days
from duetime.scheduler.rules.time.days import public_holidays
from duetime.scheduler.rules.time.days.calendar_day import add_months
from duetime.scheduler.rules.time.days.dates import read_last_day
from duetime.scheduler.rules.time.days.named_days import PUBLIC_HOLIDAY, known_calendar, no_calendar
from duetime.scheduler.rules.time.tokens import MONTHS, ORDINAL_INDEX, Misread, Tokens, ordinal

_LEADS = (
    "except for",
    "except",
    "excepting",
    "excluding",
    "but not",
    "but",
    "apart from",
    "other than",
    "not",
    "that is no",
    "that is not a",
    "which is no",
    "which is not a",
)
_EXAMPLE = "every day except fridays"
_COUNTRY_CHARS = 2
_MAX_MONTH_DAYS = 31
_MAX_SEARCHED_MONTHS = 5  # two of any five in a row have a 31st
_WEEKDAYS, _MONTHS = frozenset(range(7)), frozenset(range(1, 13))


def read_exception(row: Tokens, draft: Draft) -> bool:
    """Read `except fridays`, `except in august` or `except public holidays` into the draft if one comes next."""
    led = row.position
    if not any(row.phrase(words) for words in _LEADS):
        return False
    _ = row.accept("on", "at", "in", "during")
    _ = row.accept("every")
    if not (row.attempt(_holidays, draft) or row.attempt(_months, draft) or row.attempt(_weekdays, draft)):
        raise Misread("single dates are left out by `repeat_policy`", _with_dates(row, draft, row.until(led)))
    while row.attempt(_and_holidays, draft):
        pass
    return True


def _with_dates(row: Tokens, draft: Draft, rule: str) -> str:
    """Return a rule with the dates that come next in the argument that leaves them out."""
    today, dates = draft.today, list[str]()
    while today and (each := row.attempt(_day_of_each_month, today)):
        dates += [date.isoformat() for date in each]
        join(row)
    while today and (day := row.attempt(read_last_day, today, draft.calendar)):
        coming = day.candidates if day.every == "month" else day.candidates[:1]
        dates += [date.isoformat() for date in coming]
        join(row)
    rest = f" {row.rest}" if dates and row.rest else ""
    return f"repeat={rule + rest!r}, repeat_policy={{'except': {dates or ['2026-12-24']}}}"


def _day_of_each_month(row: Tokens, today: date) -> tuple[date, ...] | None:
    """Read `the first of the month`, and return the next two such days."""
    _ = row.accept("the")
    word = row.take()
    number = ORDINAL_INDEX.get(word) or ordinal(word) or 0
    _ = row.accept("day")
    if not (row.accept("of") and row.accept("the", "each", "every", "a") and row.accept("month")):
        return None
    if not 1 <= number <= _MAX_MONTH_DAYS:
        return None
    starts = (add_months(today.replace(day=1), ahead) for ahead in range(_MAX_SEARCHED_MONTHS))
    days = (start.replace(day=number) for start in starts if number <= monthrange(start.year, start.month)[1])
    return tuple(islice((day for day in days if day >= today), 2))


def refuse_exception_alone(row: Tokens) -> None:
    """Raise `Misread` for `except fridays`, which does not say what else there is."""
    whole = row.rest
    if any(row.phrase(words) for words in _LEADS):
        raise Misread("an exception needs the days that it is one of", f"every day {whole}")


def refuse_holidays_alone(row: Tokens) -> None:
    """Raise `Misread` for `every public holiday`: a rule can leave them out, but not consist of them."""
    if any(row.phrase(words) for words in PUBLIC_HOLIDAY):
        raise Misread("public holidays need a task each: `next public holiday` as `when`", "yearly on 25 december")


def leave_out(draft: Draft) -> None:
    """Take what a draft leaves out from the days and months that it has."""
    out = draft.excluded
    if out.weekdays:
        draft.weekdays = {(0, day) for day in _rest(_weekdays_of(draft), out.weekdays)}
    if out.months:
        draft.months = _rest(draft.months or _MONTHS, out.months)


def _weekdays_of(draft: Draft) -> set[int]:
    if draft.monthdays or draft.workdays or any(nth for nth, _ in draft.weekdays):
        raise Misread("weekdays cannot be left out of days of the month", _EXAMPLE)
    if not draft.weekdays and draft.freq not in {*SUB_DAILY, DAILY}:
        raise Misread("it is not clear which days are meant", _EXAMPLE)
    return {day for _, day in draft.weekdays} or set(_WEEKDAYS)


def _rest(had: set[int] | frozenset[int], out: set[int]) -> set[int]:
    if not had & out:
        raise Misread("leaves out a day that it does not have", _EXAMPLE)
    if not had - out:
        raise Misread("leaves out every day that it has", _EXAMPLE)
    return set(had - out)


def _months(row: Tokens, draft: Draft) -> bool:
    month = row.one_of(MONTHS)
    if month is None or not (row.done or row.peek().isalpha() or row.peek() in {",", "&"}):
        return False
    while month is not None:
        draft.excluded.months.add(month)
        month = row.attempt(lambda row: row.one_of(MONTHS) if join(row) else None)
    return True


def _weekdays(row: Tokens, draft: Draft) -> bool:
    days = Draft()
    if not row.attempt(read_days, days) or days.monthdays or any(nth for nth, _ in days.weekdays):
        return False
    draft.excluded.weekdays |= {day for _, day in days.weekdays}
    return True


def _and_holidays(row: Tokens, draft: Draft) -> bool:
    return join(row) and _holidays(row, draft)


def _holidays(row: Tokens, draft: Draft) -> bool:
    """Read `public holidays`, which are those of the configured calendar, or `public holidays in CA-AB`."""
    led = row.position
    _ = row.phrase("the") or row.accept("any")
    if not (any(row.phrase(words) for words in PUBLIC_HOLIDAY) or row.accept("holidays")):
        return False
    calendar = row.attempt(_calendar) or draft.calendar
    if not calendar:
        _ = row.accept("in", "of") and row.take()  # the name of a country
        rest = f" {row.rest}" if row.rest else ""
        raise no_calendar(f"{row.until(led)} public holidays in CA-AB{rest}")
    draft.excluded.holidays = known_calendar(calendar)
    return True


def _calendar(row: Tokens) -> str | None:
    """Read `in germany` or `in ca-ab`: a country, and a part of it that may begin with a number."""
    if not row.accept("in", "of"):
        return None
    if named := row.attempt(_country):
        return named
    if len(row.peek()) != _COUNTRY_CHARS or row.peek() in MONTHS:
        return None
    code = row.take()
    if row.accept("-"):
        code += f"-{row.take()}"
        code += row.take() if len(row.peek()) == 1 and row.peek().isalpha() else ""
    return code


def _country(row: Tokens) -> str | None:
    """Read the name of a country in up to three words: `the united states`."""
    _ = row.accept("the")
    for count in (3, 2, 1):
        words = [row.peek(at) for at in range(count)]
        if all(words) and (code := public_holidays.code_of(words)):
            for _word in words:
                row.take()
            return code
    return None

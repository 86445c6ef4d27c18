"""Days that a recurrence leaves out: `every day except fridays` falls on the other six."""

from __future__ import annotations

from duetime.scheduler.rules.recurrence.day_lists import Draft, join, read_days
from duetime.scheduler.rules.recurrence.rule import DAILY, HOURLY, MINUTELY
from duetime.scheduler.rules.time.tokens import MONTHS, Misread, Tokens

_LEADS = ("except for", "except", "excepting", "excluding", "but not", "but", "apart from", "other than", "not")
_EXAMPLE = "every day except fridays"
_WEEKDAYS, _MONTHS = frozenset(range(7)), frozenset(range(1, 13))


def read_exception(row: Tokens, draft: Draft) -> bool:
    """Read `except fridays` or `except in august` into the draft if one comes next."""
    if not any(row.phrase(words) for words in _LEADS):
        return False
    _ = row.accept("on", "at", "in", "during")
    _ = row.accept("every")
    if not (row.attempt(_months, draft) or _weekdays(row, draft)):
        raise Misread("only days of the week and months can be left out", _EXAMPLE)
    return True


def refuse_exception_alone(row: Tokens) -> None:
    """Raise `Misread` for `except fridays`, which does not say what else there is."""
    whole = row.rest
    if any(row.phrase(words) for words in _LEADS):
        raise Misread("an exception needs the days that it is one of", f"every day {whole}")


def leave_out(draft: Draft) -> None:
    """Take what a draft leaves out from the days and months that it has."""
    out = draft.excluded
    if out.weekdays:
        draft.weekdays = {(0, day) for day in _rest(_weekdays_of(draft), out.weekdays)}
    if out.months:
        draft.months = _rest(draft.months or _MONTHS, out.months)


def _weekdays_of(draft: Draft) -> set[int]:
    if draft.monthdays or any(nth for nth, _ in draft.weekdays):
        raise Misread("weekdays cannot be left out of days of the month", _EXAMPLE)
    if not draft.weekdays and draft.freq not in {MINUTELY, HOURLY, DAILY}:
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

"""A step between two hours of the day: `every 3 hours between 9 and 17` becomes its times of day.

Both ends count. Hours that go past midnight are those of every day: with days named, they would belong to the next one.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta

from duetime.scheduler.rules.recurrence.rule import HOURLY, MINUTELY, SECONDLY
from duetime.scheduler.rules.recurrence.words.day_lists import Draft, Window
from duetime.scheduler.rules.recurrence.words.intervals import read_interval
from duetime.scheduler.rules.time.durations import UNITS
from duetime.scheduler.rules.time.time_of_day import Clock, read_clock
from duetime.scheduler.rules.time.tokens import Misread, Tokens

_JOINS = {"between": ("and", "-"), "from": ("to", "till", "until", "through", "-")}
_MINUTE, _DAY, _HALF_DAY_HOURS = timedelta(minutes=1), timedelta(days=1), 12
_STEP_UNITS = {form for form, unit in UNITS.items() if unit in {"minute", "hour"}} | {"hourly"}
_EXAMPLE = "every hour between 9:00 and 17:00"


@dataclass(frozen=True, slots=True)
class _End:
    """One end of the window; `bare` is an hour without minutes and without its half of the day."""

    clock: time
    bare: bool
    halved: bool


def read_window(row: Tokens, draft: Draft) -> bool:
    """Read `between 9 and 17` or `from 9am to 5pm` into the draft if one comes next."""
    start, joins = row.position, _JOINS.get(row.take())
    first = row.attempt(_end) if joins else None
    last = row.attempt(_end) if first and row.accept(*joins or ()) else None
    if first is None or last is None:
        return False
    _check_halves(row, start, first, last)
    if draft.window:
        raise Misread("names its hours twice", _EXAMPLE)
    hours = f"from {first.clock:%H:%M} to"
    stepped = row.replaced(start, f"every hour {hours} {last.clock:%H:%M}")
    draft.window = Window(first.clock, last.clock, stepped, row.replaced(start, f"{hours} 23:59"))
    return True


def read_step(row: Tokens, draft: Draft) -> bool:
    """Read the `every 15 minutes from 9:00 to 17:00` that stands after the days."""
    step = Draft()
    if not (row.accept("every") and read_interval(row, step) and read_window(row, step)):
        return False
    if step.freq not in {MINUTELY, HOURLY} or draft.window:
        raise Misread("hours between two times need one step of hours or minutes", _EXAMPLE)
    draft.window, draft.step = step.window, _minutes(step)
    return True


def dashed_hours(row: Tokens) -> str:
    """Return `mondays 9-11` with a step, its second token or its third just taken; empty for other words."""
    at = next((at for at in (row.position - 1, row.position - 2) if _is_dashed(row, at - row.position)), None)
    if at is None:
        return ""
    said, first, last = row.until(at), row.peek(at - row.position), row.peek(at + 2 - row.position)
    stepped = any(unit in said.split() for unit in _STEP_UNITS)
    return f"{said}{'' if stepped else ' every hour'} from {first} to {last}"


def _is_dashed(row: Tokens, ahead: int) -> bool:
    first, sign, last = (row.peek(ahead + step) for step in range(3))
    return first[:1].isdigit() and sign == "-" and last[:1].isdigit()


def set_times(draft: Draft) -> None:
    """Turn the window of a draft, if it has one, into its times of day."""
    window = draft.window
    if window is None:
        return
    by_clock = draft.freq == HOURLY and draft.interval == 1 and draft.minutes
    if draft.freq == SECONDLY:
        raise Misread("a step between two hours is of whole minutes", window.stepped)
    if not draft.step and draft.freq not in {MINUTELY, HOURLY}:
        raise Misread("hours between two times need a step", window.stepped)
    if draft.times:
        raise Misread("a step between two hours has no other time of day", _EXAMPLE)
    if window.last < window.first and (draft.weekdays or draft.monthdays or draft.months or draft.excluded):
        raise Misread(
            "the hours after midnight belong to the next day, so they need a task of their own",
            window.before_midnight,
        )
    step = draft.step or _minutes(draft)
    draft.times = _clock_times(window, draft.minutes) if by_clock else _stepped(window, step)
    draft.freq, draft.interval = ("", 1) if not draft.step else (draft.freq, draft.interval)
    draft.minutes = set()


def _end(row: Tokens) -> _End | None:
    clock: Clock | None = read_clock(row, bare_hour=True)
    if clock is None or clock.part:
        return None
    return _End(clock.time, bare=clock.note is not None, halved=clock.halved)


def _check_halves(row: Tokens, start: int, first: _End, last: _End) -> None:
    """Refuse ends whose half of the day is not clear: `between 9 and 5`, `between 1 and 5 pm`."""
    if last.bare and not last.halved and last.clock < first.clock < _later(last.clock):
        raise _unclear(row, start, (first.clock, _later(last.clock)), (first.clock, last.clock))
    if first.bare and last.halved and _later(first.clock) < last.clock:
        raise _unclear(row, start, (_later(first.clock), last.clock), (first.clock, last.clock))


def _later(clock: time) -> time:
    """Return the same hour of the second half of the day."""
    return clock.replace(hour=clock.hour % _HALF_DAY_HOURS + _HALF_DAY_HOURS)


def _unclear(row: Tokens, start: int, *readings: tuple[time, time]) -> Misread:
    texts = (row.replaced(start, f"between {first:%H:%M} and {last:%H:%M}") for first, last in readings)
    return Misread("it is not clear which half of the day is meant", *texts)


def _minutes(draft: Draft) -> int:
    return draft.interval * (60 if draft.freq == HOURLY else 1)


def _stepped(window: Window, step: int) -> set[time]:
    first, last = (datetime.combine(date.min, clock) for clock in (window.first, window.last))
    last += _DAY if last < first else timedelta()
    count = (last - first) // (step * _MINUTE)
    if not count:
        raise Misread("only one of its times is between these hours", f"every day at {window.first:%H:%M}")
    return {(first + ahead * step * _MINUTE).time() for ahead in range(count + 1)}


def _clock_times(window: Window, minutes: set[int]) -> set[time]:
    every = (time(hour, minute) for hour in range(24) for minute in minutes)
    if window.first <= window.last:
        return {found for found in every if window.first <= found <= window.last}
    return {found for found in every if found >= window.first or found <= window.last}

"""Reads `repeat_policy`: how a recurring task behaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.request import Request, Reschedule
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.task import Overlap, RepeatPolicy, Task

MAX_FAILURES_IN_A_ROW = 100
MAX_DATES_LEFT_OUT = 50

_NAME = "repeat_policy"
_EXAMPLE = "repeat_policy={'overlap': 'buffer_one', 'pause_after': 3}"
_NEEDS_REPEAT = "repeat='every day at 9:00', repeat_policy={'pause_after': 3}"


def policy_of(request: Request) -> RepeatPolicy | None:
    """Return the policy of a new task, None for the usual one. Raises InvalidArgument."""
    return _read(request.repeat_policy, repeats=request.repeat is not None)


def changed_policy(task: Task, asked: Reschedule) -> RepeatPolicy | None:
    """Return the policy of a changed task; one that no longer recurs has none. Raises InvalidArgument."""
    if not task.repeat or "repeat_policy" in asked.remove:
        return None if not asked.repeat_policy else _read(asked.repeat_policy, repeats=False)
    return task.repeat_policy if asked.repeat_policy is None else _read(asked.repeat_policy, repeats=True)


def dates_of(task: Task) -> tuple[date, ...]:
    """Return the dates that a task leaves out."""
    return task.repeat_policy.leave_out if task.repeat_policy else ()


def left_out(rule: Recurrence, policy: RepeatPolicy | None) -> Recurrence:
    """Return the recurrence without the dates of the policy. Raises InvalidArgument when none are left."""
    if policy is None or not policy.leave_out:
        return rule
    remaining = rule.without(policy.leave_out)
    if remaining.first(rule.anchor) is None:
        raise _wrong("except leaves out every occurrence", accepted="fewer dates")
    return remaining


def _read(given: Mapping[str, Any] | None, *, repeats: bool) -> RepeatPolicy | None:
    if not given:
        return None
    if not repeats:
        raise _wrong("only a recurring task has one", accepted="repeat in the same call", example=_NEEDS_REPEAT)
    members: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _MEMBERS:
            raise _wrong(f"there is no {str(name)[:40]!r}", accepted=f"an object with {', '.join(_MEMBERS)}")
        if value is not None:
            field, read = _MEMBERS[name]
            members[field] = read(value)
    policy = RepeatPolicy(**members)
    return None if policy == RepeatPolicy() else policy


def _overlap(given: Any) -> Overlap:
    with suppress(ValueError):
        return Overlap(str(given).strip().lower().replace("-", "_"))
    raise _wrong(f"overlap: {str(given)[:40]!r} is none", accepted=", ".join(Overlap))


def _pause_after(given: Any) -> int | None:
    if given == 0 and type(given) is int:
        return None
    number = int(given) if isinstance(given, str) and given.strip().isdecimal() else given
    if type(number) is not int or not 1 <= number <= MAX_FAILURES_IN_A_ROW:
        raise _wrong("pause_after: it is no number of failures", accepted=f"1 to {MAX_FAILURES_IN_A_ROW}")
    return number


def _dates(given: Any) -> tuple[date, ...]:
    several = [given] if isinstance(given, str | date) else given
    if not isinstance(several, Sequence) or len(several) > MAX_DATES_LEFT_OUT:
        raise _no_dates("it is no list of dates")
    return tuple(sorted({_date(one) for one in several}))


def _date(given: Any) -> date:
    if isinstance(given, date):
        return given.date() if isinstance(given, datetime) else given
    with suppress(ValueError):
        return date.fromisoformat(str(given).strip())
    raise _no_dates(f"{str(given)[:40]!r} is no date")


def _no_dates(problem: str) -> InvalidArgument:
    accepted = f"up to {MAX_DATES_LEFT_OUT} dates; days of the week and public holidays are left out in `repeat`"
    return _wrong(f"except: {problem}", accepted=accepted, example="repeat_policy={'except': ['2026-12-24']}")


def _wrong(problem: str, *, accepted: str, example: str = _EXAMPLE) -> InvalidArgument:
    return InvalidArgument(_NAME, problem, accepted=accepted, example=example)


_MEMBERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "overlap": ("overlap", _overlap),
    "pause_after": ("pause_after", _pause_after),
    "except": ("leave_out", _dates),
}
"""The members as callers name them, each with the field that it sets and how it is read."""

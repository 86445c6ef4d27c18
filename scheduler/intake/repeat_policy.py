"""Reads `repeat_policy`: how a recurring task behaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.request import Request
from duetime.scheduler.reschedule.reschedule import Reschedule
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.series.answered import ANSWER_MEMBER
from duetime.scheduler.rules.time import times
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.scheduler.task import Coalesce, Occurrence, Overlap, RepeatPolicy, Task

MAX_FAILURES_IN_A_ROW = 100
MAX_DATES_LEFT_OUT = 50
MAX_CATCHUP = timedelta(days=366)
MAX_JITTER = timedelta(hours=12)
HOUR = timedelta(hours=1)

_NAME = "repeat_policy"
_EXAMPLE = "repeat_policy={'overlap': 'buffer_one', 'pause_after': 3}"
_CATCH_UP = "repeat_policy={'catchup_window': '1 hour', 'coalesce': 'latest', 'jitter': '2 min'}"
_NEEDS_REPEAT = "repeat='every day at 9:00', repeat_policy={'pause_after': 3}"


def policy_of(request: Request) -> RepeatPolicy | None:
    """Return the policy of a new task, None for the usual one. Raises InvalidArgument."""
    return _read(request.repeat_policy, repeats=request.repeat is not None)


def changed_policy(task: Task, request: Reschedule) -> RepeatPolicy | None:
    """Return the policy of a changed task; one that no longer recurs has none. Raises InvalidArgument."""
    if not task.repeat or "repeat_policy" in request.remove:
        return None if not request.repeat_policy else _read(request.repeat_policy, repeats=False)
    policy = task.repeat_policy if request.repeat_policy is None else _read(request.repeat_policy, repeats=True)
    check_one_question(policy, task.asks)
    return policy


def check_one_question(policy: RepeatPolicy | None, each_run: Mapping[str, Any] | None) -> None:
    """Refuse runs at once of a task that asks, or waits for an event, before each run: one waits at a time."""
    if each_run is not None and policy is not None and policy.overlap is Overlap.ALLOW_ALL:
        does = (
            "approval asks before each run, one question"
            if ANSWER_MEMBER in each_run
            else "wait_for waits for each run, one"
        )
        problem = f"a task with {does} at a time; with overlap allow_all runs overlap"
        raise _wrong(problem, accepted="another overlap", example="repeat_policy={'overlap': 'buffer_one'}")


def dates_of(task: Task) -> tuple[date, ...]:
    """Return the dates that a task leaves out."""
    return task.repeat_policy.leave_out if task.repeat_policy else ()


def spread(rule: Recurrence, policy: RepeatPolicy | None, usual: timedelta) -> RepeatPolicy | None:
    """Return the policy with the `usual` jitter of a rule on the hour where it names none.

    Raises InvalidArgument for a jitter by which a run would start after the next occurrence.
    """
    coming = rule.upcoming(rule.anchor - timedelta(microseconds=1), 2)
    apart = coming[1].instant - coming[0].instant if len(coming) > 1 else MAX_JITTER * 2
    jitter = policy.jitter if policy else None
    if jitter is not None:
        if 2 * jitter > apart:
            raise _wrong(f"jitter: occurrences are only {times.length(apart)} apart", accepted="half of that at most")
        return policy
    if not usual or apart < HOUR or any(each.wall.minute or each.wall.second for each in coming):
        return policy
    return replace(policy or RepeatPolicy(), jitter=usual)


def spread_note(policy: RepeatPolicy | None, first: Occurrence, zone: str) -> tuple[str, ...]:
    """Say between which times a run starts."""
    if policy is None or not policy.jitter:
        return ()
    end = f"{first.wall + policy.jitter:%H:%M:%S}".removesuffix(":00")
    return (f"each run starts between {first.wall:%H:%M} and {end} {zone}; jitter '0 s' is exact",)


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
    _check_together(policy)
    return None if policy == RepeatPolicy() else policy


def _check_together(policy: RepeatPolicy) -> None:
    if policy.overlap not in {Overlap.SKIP, Overlap.BUFFER_ALL} and policy.coalesce is Coalesce.ALL:
        problem = f"coalesce all runs what overlap {policy.overlap} leaves out"
        raise _wrong(problem, accepted="overlap buffer_all, or skip")
    if policy.overlap is Overlap.ALLOW_ALL and policy.pause_after:
        problem = "pause_after counts runs one after the other; with overlap allow_all they run at once"
        raise _wrong(problem, accepted="one of both", example="repeat_policy={'overlap': 'allow_all'}")


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


def _coalesce(given: Any) -> Coalesce:
    with suppress(ValueError):
        return Coalesce(str(given).strip().lower())
    raise _wrong(f"coalesce: {str(given)[:40]!r} is none", accepted=", ".join(Coalesce), example=_CATCH_UP)


def _window(given: Any) -> timedelta:
    return _length("catchup_window", given, MAX_CATCHUP)


def _jitter(given: Any) -> timedelta:
    return _length("jitter", given, MAX_JITTER)


def _length(name: str, given: Any, most: timedelta) -> timedelta:
    with suppress(Misread, Unknown, OverflowError):
        span = given if isinstance(given, timedelta) else _spoken(given)
        if timedelta(0) <= span <= most:
            return span
    raise _wrong(
        f"{name}: it is no length of time up to {times.length(most)}", accepted="words or seconds", example=_CATCH_UP
    )


def _spoken(given: Any) -> timedelta:
    text = str(given).strip()
    return timedelta(seconds=float(text)) if text.replace(".", "", 1).isdecimal() else parse_exact(text)


_MEMBERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "overlap": ("overlap", _overlap),
    "catchup_window": ("catchup_window", _window),
    "coalesce": ("coalesce", _coalesce),
    "jitter": ("jitter", _jitter),
    "pause_after": ("pause_after", _pause_after),
    "except": ("leave_out", _dates),
}
"""The members as callers name them, each with the field that it sets and how it is read."""

"""Reads `repeat_policy`: how a recurring task behaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Any

from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.remedies import nearest_name
from duetime.scheduler.request import Request
from duetime.scheduler.rules.recurrence.excluded_dates import excluded_dates
from duetime.scheduler.rules.recurrence.recurrence import Recurrence
from duetime.scheduler.rules.series.before_run import ANSWER_MEMBER
from duetime.scheduler.rules.time import times
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.scheduler.task import Coalesce, Overlap, RepeatPolicy, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.view_parts import Occurrence

MAX_FAILURES_IN_A_ROW = 100
MAX_CATCHUP = timedelta(days=366)
MAX_JITTER = timedelta(hours=12)
HOUR = timedelta(hours=1)

_NAME = "repeat_policy"
_EXCEPT = "except"
_MEANT_OVERLAPS = {
    **dict.fromkeys(("queue", "enqueue", "buffer", "wait"), Overlap.BUFFER_ALL),
    **dict.fromkeys(("allow", "parallel", "concurrent"), Overlap.ALLOW_ALL),
    **dict.fromkeys(("replace", "cancel", "terminate", "terminate_other"), Overlap.CANCEL_OTHER),
    **dict.fromkeys(("forbid", "drop", "ignore"), Overlap.SKIP),
}
"""Words of other schedulers for what happens to a run that falls due while another runs."""

_MEANT_MEMBERS = {
    **dict.fromkeys(("exclude", "exceptions", "excluded_dates", "exclude_dates", "skip_dates", "exdates"), _EXCEPT),
    **dict.fromkeys(("overlap_policy", "concurrency", "concurrency_policy"), "overlap"),
    **dict.fromkeys(("misfire_grace_time", "starting_deadline"), "catchup_window"),
}
"""Names that other schedulers have for a member."""


def policy_of(request: Request, today: date) -> RepeatPolicy | None:
    """Return the policy of a new task, None for the usual one; `today` is that of its zone. Raises InvalidArgument."""
    return _read(request.repeat_policy, today, request.repeat, of_chain=bool(request.steps))


def changed_policy(task: Task, request: Reschedule, today: date, *, of_chain: bool = False) -> RepeatPolicy | None:
    """Return the policy of a changed task, or chain; one that no longer recurs has none. Raises InvalidArgument."""
    if not task.repeat or "repeat_policy" in request.remove:
        if request.repeat_policy:
            raise _of_no_series(f"title={task.title!r}, ")
        return None
    policy = task.repeat_policy
    if request.repeat_policy is not None:
        policy = _read(request.repeat_policy, today, request.repeat or task.repeat, of_chain=of_chain)
    if not of_chain:
        check_one_question(policy, task.asks)
    return policy


def check_one_question(policy: RepeatPolicy | None, each_run: Mapping[str, Any] | None) -> None:
    """Refuse runs at once of a task that asks, or waits for an event, before each run: one waits at a time.

    The generations of a chain may: each has its own question and its own wait.
    """
    if each_run is not None and policy is not None and policy.overlap is Overlap.ALLOW_ALL:
        does = (
            "approval asks before each run, one question"
            if ANSWER_MEMBER in each_run
            else "wait_for waits for each run, one"
        )
        problem = f"a task with {does} at a time; with overlap allow_all runs overlap"
        raise _wrong("overlap", problem, accepted="another overlap", example="'buffer_one'")


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
            problem, half = f"occurrences are only {times.length(apart)} apart", times.length(apart // 2)
            raise _wrong("jitter", problem, accepted=f"half of that at most, {half}", example=repr(half))
        return policy
    if not usual or apart < HOUR or any(each.wall.minute or each.wall.second for each in coming):
        return policy
    return replace(policy or RepeatPolicy(), jitter=usual)


def respread(
    rule: Recurrence, policy: RepeatPolicy | None, usual: timedelta, given: Mapping[str, Any] | None
) -> RepeatPolicy | None:
    """Return the policy of a series with a new rule, or with another policy (`given`), spread as a new task is.

    The usual jitter that it had before is none of its own. Raises InvalidArgument as `spread` does.
    """
    if policy and usual and given is None and policy.jitter == usual:
        exact = replace(policy, jitter=None)
        policy = None if exact == RepeatPolicy() else exact
    return spread(rule, policy, usual)


def spread_note(policy: RepeatPolicy | None, first: Occurrence, zone: str) -> tuple[str, ...]:
    """Say between which times a run starts."""
    if policy is None or not policy.jitter:
        return ()
    time, last = f"{first.wall:%H:%M}", f"{first.wall + policy.jitter:%H:%M:%S}".removesuffix(":00")
    text = f"each run starts between {time} and {last} {zone}; jitter '0 s' is exact"
    return (Translatable.of(NoteKind.JITTER, text, time=time, last=last),)


def left_out(rule: Recurrence, policy: RepeatPolicy | None) -> Recurrence:
    """Return the recurrence without the dates of the policy. Raises InvalidArgument when none are left."""
    if policy is None or not policy.leave_out:
        return rule
    remaining = rule.without(policy.leave_out)
    if remaining.first(rule.anchor) is None:
        raise _wrong("except", "it leaves out every occurrence", accepted="fewer dates", example="null")
    return remaining


def _read(given: Mapping[str, Any] | None, today: date, repeat: Any, *, of_chain: bool) -> RepeatPolicy | None:
    if not given:
        return None
    if repeat is None:
        raise _of_no_series()
    members: dict[str, Any] = {}
    dates = partial(excluded_dates, f"{_NAME}.{_EXCEPT}", today=today, repeat=str(repeat))
    readers: Mapping[str, tuple[str, Callable[[Any], Any]]] = {**_MEMBERS, _EXCEPT: ("leave_out", dates)}
    for name, value in given.items():
        if name not in readers:
            raise _unknown(given)
        if value is not None:
            field, read = readers[name]
            members[field] = read(value)
    policy = RepeatPolicy(**members)
    _check_together(policy, of_chain=of_chain)
    return None if policy == RepeatPolicy() else policy


def _of_no_series(kept: str = "") -> InvalidArgument:
    """Return the refusal of a policy without a recurrence; its example leaves the policy out, and is no empty call."""
    problem, accepted = "only a recurring task has one", "repeat in the same call"
    return InvalidArgument(_NAME, problem, accepted=accepted, example=f"{kept}{_NAME}=null")


def _check_together(policy: RepeatPolicy, *, of_chain: bool) -> None:
    if policy.overlap not in {Overlap.SKIP, Overlap.BUFFER_ALL} and policy.coalesce is Coalesce.ALL:
        problem = f"coalesce all runs what {policy.overlap} leaves out"
        raise _wrong("overlap", problem, accepted="buffer_all, or skip", example="'buffer_all'")
    if policy.overlap is Overlap.ALLOW_ALL and policy.pause_after and not of_chain:
        problem = "it counts runs one after the other; with overlap allow_all they run at once"
        raise _wrong("pause_after", problem, accepted="one of both", example="null")


def _overlap(given: Any) -> Overlap:
    word = str(given)[:40].strip().lower().replace("-", "_")
    with suppress(ValueError):
        return Overlap(word)
    meant = _MEANT_OVERLAPS.get(word) or nearest_name(word, Overlap) or Overlap.SKIP
    raise _wrong(
        "overlap", f"{str(given)[:40]!r} is not a known rule", accepted=", ".join(Overlap), example=repr(str(meant))
    )


def _pause_after(given: Any) -> int | None:
    if given == 0 and type(given) is int:
        return None
    number = int(given) if isinstance(given, str) and given.strip().isdecimal() else given
    if type(number) is not int or not 1 <= number <= MAX_FAILURES_IN_A_ROW:
        accepted = f"1 to {MAX_FAILURES_IN_A_ROW}"
        raise _wrong("pause_after", "it is not a number of failures", accepted=accepted, example="3")
    return number


def _wrong(member: str, problem: str, *, accepted: str, example: str) -> InvalidArgument:
    """Return what is wrong with a member; the example is its value, `null` where it is to be left out."""
    return InvalidArgument(f"{_NAME}.{member}", problem, accepted=accepted, example=example)


def _unknown(given: Mapping[str, Any]) -> InvalidArgument:
    """Return what is wrong with members that are none; a value keeps its place under the name that was meant."""
    names = [str(name) for name in given if name not in _MEMBER_NAMES]
    meant: dict[str, str] = {}
    for name in names:
        near = _MEANT_MEMBERS.get(name) or nearest_name(name, _MEMBER_NAMES)
        meant |= {near: repr(given[name])} if near and near not in given and near not in meant else {}
    example = {**meant, **{name: "null" for name in names if name.isidentifier()}}
    shown, accepted = ", ".join(repr(name[:40]) for name in names[:6]), f"an object with {', '.join(_MEMBER_NAMES)}"
    corrected = ", ".join(f"{name}={value}" for name, value in example.items())
    return InvalidArgument(f"{_NAME}.{names[0][:40]}", f"there is no {shown}", accepted=accepted, example=corrected)


def _coalesce(given: Any) -> Coalesce:
    word = str(given)[:40].strip().lower()
    with suppress(ValueError):
        return Coalesce(word)
    meant = nearest_name(word, Coalesce) or Coalesce.LATEST
    raise _wrong(
        "coalesce", f"{str(given)[:40]!r} is not a known rule", accepted=", ".join(Coalesce), example=repr(str(meant))
    )


def _window(given: Any) -> timedelta:
    return _length("catchup_window", given, MAX_CATCHUP, "1 hour")


def _jitter(given: Any) -> timedelta:
    return _length("jitter", given, MAX_JITTER, "0 s")


def _length(name: str, given: Any, most: timedelta, usual: str) -> timedelta:
    with suppress(Misread, Unknown, OverflowError):
        span = given if isinstance(given, timedelta) else _spoken(given)
        if timedelta(0) <= span <= most:
            return span
        usual = times.length(most) if span > most else usual
    problem = f"it is not a duration of at most {times.length(most)}"
    raise _wrong(name, problem, accepted="words or seconds", example=repr(usual))


def _spoken(given: Any) -> timedelta:
    text = str(given).strip()
    return timedelta(seconds=float(text)) if text.replace(".", "", 1).isdecimal() else parse_exact(text)


_MEMBERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "overlap": ("overlap", _overlap),
    "catchup_window": ("catchup_window", _window),
    "coalesce": ("coalesce", _coalesce),
    "jitter": ("jitter", _jitter),
    "pause_after": ("pause_after", _pause_after),
}
"""The members as callers name them, each with the field that it sets and how it is read; the dates need a day."""

_MEMBER_NAMES = (*_MEMBERS, _EXCEPT)

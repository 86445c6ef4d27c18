"""Reads the argument `approval`: the question, its deadline, and the default answer at that deadline."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import date, datetime, timedelta
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.deadlines import is_clock, length_until
from duetime.scheduler.intake.instants import Timing, resolve_end
from duetime.scheduler.intake.time_reader import TimeReader
from duetime.scheduler.intake.validation import ProblemCollector
from duetime.scheduler.request import Request
from duetime.scheduler.rules.sanitize import check_text
from duetime.scheduler.rules.series.before_run import IN_CHAIN
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.times import Resolved
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.scheduler.task import ApprovalAnswer, ApprovalRequest, Json
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.waits.approval import MAX_QUESTION_CHARS, Approval, meant_answer, meant_member, meant_members

_ACCEPTED: Final = "true, or an object with question, by (a time or a length of time) and default (approve or reject)"
_EXAMPLE: Final = "approval={'question': 'Pay 90 EUR?', 'by': '2 hours', 'default': 'reject'}"


def approval_of(request: Request, times: TimeReader, series: Timing | None, now: datetime) -> Approval | None:
    """Return what is asked before the run of a request starts, None for nothing.

    A task that repeats asks as long before each run as `by` says: a length of time. Raises InvalidArgument.
    """
    if not request.approval:
        return None
    approval: Any = request.approval
    given = {} if approval is True else {"question": approval} if isinstance(approval, str) else approval
    if request.repeat is not None:
        check_length(given, series)
    return read_approval(given, now, times.zone_of(request))


def read_by_note(given: Any, now: datetime, zone: str | None) -> tuple[str, ...]:
    """Say how the words of the time at which the default decides were read; a length of time needs no reading."""
    by = given.get("by") if isinstance(given, Mapping) else None
    if not by or isinstance(by, timedelta):
        return ()
    with suppress(Misread, Unknown):
        parse_exact(str(by).removeprefix("in "))
        return ()
    assumed = resolve_end(by, now=now, zone=zone, argument="approval.by").assumptions
    return tuple(Translatable.of(NoteKind.TIME_ASSUMED, f"approval.by: {each}") for each in assumed)


def check_length(given: Any, series: Timing | None) -> None:
    """Refuse an instant as the deadline of a question that is asked again before each run.

    Of a time of day, the example is the length of time from the last one before it at which the series is due.
    """
    by = given.get("by") if isinstance(given, Mapping) else None
    if not by or isinstance(by, timedelta):
        return
    with suppress(Misread, Unknown):
        parse_exact(str(by).removeprefix("in "))
        return
    example = "2 hours"
    with suppress(InvalidArgument):
        if series and isinstance(by, str) and is_clock(by):
            end = resolve_end(by, now=series.first, zone=series.zone, argument="approval.by").instant
            example = length_until(end, series.first, series.zone, series.times_of_day)
    raise InvalidArgument(
        "approval.by",
        "a task that repeats asks before each of its runs, and not until one time for all",
        accepted="a length of time, counted from when each run is due",
        example=f"by={example!r}",
    )


def asked_before_each(approval: Approval, *, in_chain: bool = False) -> dict[str, Json]:
    """Return what a task keeps of its question, so that each of its runs asks again; a step `in_chain` that recurs."""
    span = approval.ends_at - approval.asked_at if approval.ends_at else None
    kept: dict[str, Json] = {"default": approval.default.value}
    kept |= {"question": approval.question} if approval.question else {}
    kept |= {IN_CHAIN: True} if in_chain else {}
    return kept | ({"seconds": span.total_seconds()} if span else {})


def read_approval(given: ApprovalRequest | Mapping[str, Any], now: datetime, zone: str | None) -> Approval:
    """Return an approval that is asked from now on; its run is not known yet. Raises InvalidArgument(s)."""
    if not isinstance(given, Mapping):
        raise InvalidArgument("approval", "it is not an object", accepted=_ACCEPTED, example=_EXAMPLE)
    problems = ProblemCollector()
    problems.of(_check_members, given)
    words, by = given.get("question") or None, given.get("by") or None
    question = problems.of(check_text, "approval.question", words, limit=MAX_QUESTION_CHARS) if words else None
    default = problems.of(_answer, given.get("default") or ApprovalAnswer.REJECT, timed=by is not None)
    due_by = problems.of(_due_by, by, now, zone) if by is not None else None
    if problems or default is None:
        raise problems.error()
    ends_at = due_by.instant if due_by else None
    if ends_at is None and default is ApprovalAnswer.APPROVE:
        raise InvalidArgument(
            "approval.by", "a default needs a time at which it decides", accepted="a time", example="by='2 hours'"
        )
    return Approval("", 0, question, default, now, ends_at)


def _due_by(given: Any, now: datetime, zone: str | None) -> Resolved:
    if not isinstance(given, str | date | timedelta):
        accepted, example = "a time, or a length of time", "by='2 hours'"
        raise InvalidArgument("approval.by", "it is no text", accepted=accepted, example=example)
    return resolve_end(given, now=now, zone=zone, argument="approval.by")


def _check_members(given: Mapping[str, Any]) -> None:
    unknown = [name for name in given if name not in ApprovalRequest.__annotations__]
    if unknown:
        meant = meant_member(unknown[0])
        guess = f"; did you mean {meant}" if meant else ""
        right = {name: each for name, each in meant_members(given).items() if name in ApprovalRequest.__annotations__}
        example = f"approval={right!r}" if right else _EXAMPLE
        problem = f"it has no member {str(unknown[0])[:40]!r}{guess}"
        raise InvalidArgument("approval", problem, accepted=_ACCEPTED, example=example)


def _answer(word: Any, *, timed: bool) -> ApprovalAnswer:
    try:
        return ApprovalAnswer(word)
    except ValueError:
        meant = meant_answer(word)
        time = "" if timed or meant is not ApprovalAnswer.APPROVE else ", by='2 hours'"
        raise InvalidArgument(
            "approval.default",
            f"{str(word)[:40]!r} is not an answer",
            accepted=", ".join(ApprovalAnswer),
            example=f"default={meant.value!r}{time}",
        ) from None

"""Reads the argument `approval`: the question, until when it is asked, and the answer if nobody gives one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from duetime.scheduler.approvals.approval import MAX_QUESTION_CHARS, Approval
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.instants import resolve_moment
from duetime.scheduler.request import Request
from duetime.scheduler.rules.sanitize import check_text
from duetime.scheduler.task import ApprovalAnswer, ApprovalRequest

_ACCEPTED: Final = "true, or an object with question, by (a time or a length of time) and default (approve or reject)"
_EXAMPLE: Final = "approval={'question': 'Pay 90 EUR?', 'by': '2 hours', 'default': 'reject'}"


def approval_of(request: Request, now: datetime, zone: str | None) -> Approval | None:
    """Return what is asked before the run of a request starts, None for nothing. Raises InvalidArgument."""
    if request.approval is None or request.approval is False:
        return None
    if request.repeat is not None:
        raise InvalidArgument(
            "approval", "a task that repeats is not approved once for all its runs", accepted="one of approval, repeat"
        )
    asked: Any = request.approval
    return read_approval({} if asked is True else {"question": asked} if isinstance(asked, str) else asked, now, zone)


def read_approval(given: ApprovalRequest | Mapping[str, Any], now: datetime, zone: str | None) -> Approval:
    """Return an approval that is asked from now on; its run is not known yet. Raises InvalidArgument."""
    if not isinstance(given, Mapping):
        raise InvalidArgument("approval", "it is no object", accepted=_ACCEPTED, example=_EXAMPLE)
    unknown = [name for name in given if name not in ApprovalRequest.__annotations__]
    if unknown:
        raise InvalidArgument(
            "approval", f"it has no member {str(unknown[0])[:40]!r}", accepted=_ACCEPTED, example=_EXAMPLE
        )
    said, by = given.get("question") or None, given.get("by") or None
    question = check_text("approval.question", said, limit=MAX_QUESTION_CHARS) if said is not None else None
    default = _answer(given.get("default") or ApprovalAnswer.REJECT)
    ends_at = resolve_moment(by, now=now, zone=zone, argument="approval.by").instant if by is not None else None
    if ends_at is None and default is ApprovalAnswer.APPROVE:
        raise InvalidArgument(
            "approval.by", "a default needs a time at which it decides", accepted="a time", example="by='2 hours'"
        )
    return Approval("", 0, question, default, now, ends_at)


def _answer(word: Any) -> ApprovalAnswer:
    try:
        return ApprovalAnswer(word)
    except ValueError:
        raise InvalidArgument(
            "approval.default",
            f"{str(word)[:40]!r} is no answer",
            accepted=", ".join(ApprovalAnswer),
            example="default='reject'",
        ) from None

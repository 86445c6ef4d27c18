"""Checks a `Wait` that a handler returned: for a time, for an approval of its user, or for an event."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.context import check_checkpoint
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.rules.signals.signal_waits import MAX_TIMEOUT, check_match, check_name
from duetime.scheduler.runtime.secret_mask import masked
from duetime.scheduler.task import ApprovalAnswer
from duetime.scheduler.waits.approval import MAX_QUESTION_CHARS
from duetime.scheduler.waits.signal import SIGNAL_KEPT

MAX_RETRY_DELAY: Final = timedelta(days=5 * 366)
"""Five years: the longest wait for a next attempt."""

MAX_HANDLER_REASON_CHARS: Final = 500
_EXAMPLES: Final = {
    "event": "Wait(event='order.paid', timeout=timedelta(hours=1))",
    "approval": "Wait(approval='Pay 90 EUR?', by=timedelta(hours=1))",
}
"""A wait for each that ends in time, which is what `until` was meant for."""


def check_wait(place: str, wait: Wait, began: datetime, now: datetime) -> Wait:
    """Return a storable wait of an attempt that `began` then; raises InvalidArgument, which names the `place`."""
    reason = clean_text(masked(str(wait.reason)), MAX_HANDLER_REASON_CHARS)
    asked = [name for name in ("event", "approval", "until") if getattr(wait, name) not in (None, "")]
    if len(asked) > 1:
        problem = f"asks for {' and '.join(asked)} at once"
        raise InvalidArgument(place, problem, accepted="one of event, approval, until", example=_EXAMPLES[asked[0]])
    if wait.event:
        return _for_event(place, wait, reason, began, now)
    if not wait.approval:
        return Wait(_until(f"{place}.until", wait.until, now), reason, wait.checkpoint)
    question, by = clean_text(masked(str(wait.approval)), MAX_QUESTION_CHARS), _until(f"{place}.by", wait.by, now)
    return Wait(None, reason, wait.checkpoint, question, by, _default(f"{place}.default", wait.default))


def _default(place: str, default: Any) -> ApprovalAnswer:
    try:
        return ApprovalAnswer(default)
    except ValueError:
        named = f"is {default[:40]!r}" if isinstance(default, str) else f"is a {type(default).__name__}"
        raise InvalidArgument(place, named, accepted=" or ".join(ApprovalAnswer), example="default='reject'") from None


def _for_event(place: str, wait: Wait, reason: str, began: datetime, now: datetime) -> Wait:
    """Return a wait for an event; without a lookback it misses none that its own attempt has brought about."""
    match = check_match(f"{place}.match", wait.match)
    check_checkpoint(f"{place}.match", match)
    name = check_name(f"{place}.event", wait.event)
    timeout = _until(f"{place}.timeout", wait.timeout, now, MAX_TIMEOUT)
    since = began if wait.lookback is None else _since(f"{place}.lookback", wait.lookback, now)
    return Wait(None, reason, wait.checkpoint, event=name, match=match, timeout=timeout, lookback=since)


def _since(place: str, since: object, now: datetime) -> datetime:
    if isinstance(since, timedelta) and timedelta(0) <= since <= SIGNAL_KEPT:
        return now - since
    if isinstance(since, datetime) and since.utcoffset() is not None and now - since <= SIGNAL_KEPT:
        return since
    raise InvalidArgument(
        place,
        "is not within the last 7 days",
        accepted="a timedelta from 0, or an aware datetime, at most 7 days back",
        example="timedelta(hours=1)",
    )


def _until(place: str, until: object, now: datetime, most: timedelta = MAX_RETRY_DELAY) -> datetime | timedelta:
    if isinstance(until, timedelta) and timedelta(0) < until <= most:
        return until
    if isinstance(until, datetime) and until.utcoffset() is not None and until - now <= most:
        return until
    long = "5 years" if most is MAX_RETRY_DELAY else f"{most.days} days"
    raise InvalidArgument(
        place,
        _wrong_end(until, f"is not within the next {long}"),
        accepted=f"an aware datetime or a timedelta above 0, at most {long} from now",
        example="timedelta(minutes=5)",
    )


def _wrong_end(until: object, too_far: str) -> str:
    if isinstance(until, timedelta):
        return too_far if until > timedelta(0) else f"is {until}, which is not a time to wait"
    if not isinstance(until, datetime):
        return f"is a {type(until).__name__}" if until is not None else "is missing"
    return "is a datetime without a time zone" if until.utcoffset() is None else too_far

"""Suspensions: an attempt ends, and its run waits for a time, for an answer of its user, or for an event."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from duetime.scheduler.events import EventKind
from duetime.scheduler.outcomes import Wait, Yielded
from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.task import State
from duetime.scheduler.waits.approval import Approval, question_of
from duetime.scheduler.waits.signal import SignalWait


def suspend(claim: Claim, ending: Wait | Yielded, now: datetime) -> Settlement:
    """Return the settlement of an attempt that continues later."""
    if isinstance(ending, Wait) and ending.approval:
        return _asking(claim, ending, now)
    if isinstance(ending, Wait) and ending.event:
        return _awaiting(claim, ending, now)
    return Settlement(
        claim.run.id,
        claim.run.attempt,
        claim.task.revision,
        to=State.SUSPENDED,
        kind=EventKind.SUSPENDED,
        outcome="wait" if isinstance(ending, Wait) else "yielded",
        reason=ending.reason or None,
        wake_at=_until(ending, now),
        failures=claim.run.failures,
        summary=ending.reason or None,
        checkpoint=ending.checkpoint,
        waits=ending.until if isinstance(ending, Wait) and isinstance(ending.until, timedelta) else None,
        claim=claim,
    )


def _asking(claim: Claim, ending: Wait, now: datetime) -> Settlement:
    """Return the end of an attempt that asks the user: its answer, given by anyone or by default, wakes the run."""
    ends_at = _at(ending.by, now)
    approval = Approval(claim.run.id, claim.run.attempt, ending.approval, ending.default, now, ends_at)
    notice = question_of(claim.task, claim.run, approval)
    waits = replace(ending, approval="", until=ends_at, reason=ending.reason or ending.approval)
    return replace(suspend(claim, waits, now), asks=approval, inbox=notice.message, deliveries=notice.deliveries)


def _awaiting(claim: Claim, ending: Wait, now: datetime) -> Settlement:
    """Return the end of an attempt that waits for an event: that, or the end of the wait, wakes the run."""
    since = now - ending.lookback if isinstance(ending.lookback, timedelta) else ending.lookback or now
    wait = SignalWait(ending.event, ending.match, since, _at(ending.timeout, now))
    reason = ending.reason or f"it waits for the event {wait.name!r}"
    waits = replace(ending, event="", until=wait.until, reason=reason)
    return replace(suspend(claim, waits, now), awaits=wait)


def _until(ending: Wait | Yielded, now: datetime) -> datetime:
    return now if isinstance(ending, Yielded) or ending.until is None else _at(ending.until, now)


def _at(end: datetime | timedelta, now: datetime) -> datetime:
    """Return the end of a wait, which is not in the past."""
    return max(now, now + end if isinstance(end, timedelta) else end)

"""The log lines of runs: a subscriber of their events."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from duetime.scheduler.events import EventKind
from duetime.scheduler.ids import runs_words
from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.runtime.attempt_context import AttemptName, attempt_context
from duetime.scheduler.runtime.notifier import RunEvent

_LEVELS = {EventKind.CRASHED: logging.WARNING, EventKind.DAMAGED: logging.WARNING, EventKind.EXPIRED: logging.INFO}
"""Levels of the lines for several runs; what is not here is for developers."""

log = logging.getLogger(__name__)


def log_runs(events: Sequence[RunEvent]) -> None:
    """Write a line an attempt that failed or is unverified, and one for the runs of each other event and reason."""
    groups: dict[tuple[EventKind, str | None], list[str]] = {}
    for event in events:
        end = event.settlement
        if end is not None and end.error is not None and end.claim is not None:
            _log_attempt(end.claim, end, end.error)
        elif log.isEnabledFor(_level(event.kind)):
            groups.setdefault((event.kind, event.reason), []).append(event.run_id)
    for (kind, reason), run_ids in groups.items():
        log.log(_level(kind), "%s: %s%s", kind, runs_words(run_ids), f": {reason}" if reason else "")


def _log_attempt(claim: Claim, end: Settlement, error: str) -> None:
    """Log an attempt, with the traceback of its exception below; as an error if it failed and no other follows."""
    task, goes_on = claim.task, end.wake_at is not None or end.unverified
    level = logging.WARNING if goes_on else logging.ERROR
    if not log.isEnabledFor(level):
        return
    values = (claim.run.id, task.action, end.attempt, _how(end, task.retry.max_attempts), error)
    record = log.makeRecord(
        log.name, level, __file__, 0, "run %s (%s): attempt %d %s: %s", values, None, "_log_attempt"
    )
    record.exc_text = end.traceback  # formatters write it below the line, as they do with an exception's
    with attempt_context(AttemptName(task.id, claim.run.id, end.attempt, task.action, end.traceparent)):
        log.handle(record)


def _how(end: Settlement, max_attempts: int) -> str:
    """Say how an attempt ended, and what follows."""
    if end.unverified:
        return "succeeded, unverified"
    following = f"the next is at {end.wake_at:%H:%M:%S} UTC" if end.wake_at else "no other follows"
    return f"failed (failure {end.failures} of {max_attempts}, {following})"


def _level(kind: EventKind) -> int:
    return _LEVELS.get(kind, logging.DEBUG)

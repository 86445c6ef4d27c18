"""Repeated calls: the key that makes a second call return the first one's task, and what is said of that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from duetime.scheduler.records import Added, IdempotencyKey
from duetime.scheduler.request import Repeatable, Request
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.task import Principal, TaskRecord

REPEAT_WINDOW = timedelta(seconds=60)
"""How long a repeated call without a key of its own returns the first task."""


REPEATED = "this repeats an earlier call: the task is returned as it is now, nothing was changed again"


def key_of(request: Request | Repeatable, by: Principal, now: datetime) -> IdempotencyKey | None:
    """Return the caller's key, or one derived from who calls and the raw arguments; None where there are none."""
    content = request.content()
    if request.idempotency_key is not None:
        return IdempotencyKey(request.idempotency_key, content, expires_at=None, derived=False)
    if request.raw is None:
        return None
    digest = hashlib.sha256(json.dumps([by.tenant, by.user, content], sort_keys=True).encode()).hexdigest()
    return IdempotencyKey(f"derived:{digest}", content, expires_at=now + REPEAT_WINDOW, derived=True)


def repeats(stored: TaskRecord) -> str:
    """Say that a call repeats an earlier one."""
    made = describe(stored.task.created_at, stored.task.timezone)
    return f"this repeats an earlier call: the task it made at {made} is returned, nothing new was scheduled"


def warned(warnings: Sequence[str], added: Added) -> tuple[str, ...]:
    """Return the warnings of a call that made a task or repeats an earlier one, or makes another one like it."""
    if not added.created:
        return (repeats(added.record),)
    if added.twin is not None:
        return (*warnings, f"{added.twin} has the same title and time; cancel one of them if that is not meant")
    return tuple(warnings)

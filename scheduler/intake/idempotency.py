"""Repeated calls: the key by which a second call returns the first one's task, and the warning about it."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta

from duetime.scheduler.principal import Principal
from duetime.scheduler.records import IdempotencyKey
from duetime.scheduler.request import Repeatable, Request
from duetime.scheduler.translatable import NoteKind, Translatable

REPEAT_WINDOW = timedelta(seconds=60)
"""Time for which a repeated call without a key of its own returns the first task."""


REPEATED = Translatable.of(
    NoteKind.REPEATED_CALL,
    "this repeats an earlier call: nothing was changed again, the task is returned in its current state",
)


def key_of(request: Request | Repeatable, by: Principal, now: datetime) -> IdempotencyKey | None:
    """Return the caller's key, or one derived from caller and raw arguments; None without either."""
    content = request.content()
    if request.idempotency_key is not None:
        return IdempotencyKey(request.idempotency_key, content, expires_at=None, derived=False)
    if request.raw is None:
        return None
    digest = hashlib.sha256(json.dumps([by.tenant, by.user, content], sort_keys=True).encode()).hexdigest()
    return IdempotencyKey(f"derived:{digest}", content, expires_at=now + REPEAT_WINDOW, derived=True)

"""Preflight: what a handler needs is checked before each run, which waits without a failure until it is there."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final
from zlib import crc32

from duetime.scheduler.access.secret import SecretUnavailable
from duetime.scheduler.errors import InvalidArguments
from duetime.scheduler.handlers.context import Context
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.handlers.invocation import MAX_HANDLER_REASON_CHARS, explain
from duetime.scheduler.ids import new_id
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.records import IdempotencyKey, NewTask
from duetime.scheduler.request import REMINDER_ACTION
from duetime.scheduler.rules.failures.secondary_task import secondary_task
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.rules.states import BLOCKED_ALERT_KEY, BLOCKED_PREFIX
from duetime.scheduler.run_records import Claim
from duetime.scheduler.runtime.secret_mask import masked
from duetime.scheduler.task import Json, Run, State

NOT_READY: Final = "not ready: "
MIN_PREFLIGHT_PAUSE: Final = timedelta(seconds=10)
MAX_PREFLIGHT_PAUSE: Final = timedelta(minutes=10)
_SPREAD_RATIO: Final = 0.25
_CRC_COUNT: Final = 2**32


def preflight_wait(handler: Handler, ctx: Context, payload: Mapping[str, Json], since: datetime) -> Wait | None:
    """Return the wait of a run that cannot start yet, None for one that can; `since` is when it first tried.

    A text of the check, or a secret that cannot be read, blocks the run. An exception, of whatever kind, is a fault
    that may pass. A payload that no longer fits is left to the run itself.
    """
    if handler.preflight is None:
        return None
    waited = ctx.now() - since
    try:
        arguments = handler.preflight_arguments(ctx, payload)
    except InvalidArguments:
        return None
    try:
        problem = _text_of(handler, handler.preflight(*arguments))
    except SecretUnavailable as error:
        problem = str(error)
    except BaseException as error:  # noqa: BLE001 - whatever a check raises is a fault of what it looks at
        return Wait(_pause(waited), f"{NOT_READY}{explain(error)}")
    return blocked_wait(masked(problem), waited) if problem else None


def _text_of(handler: Handler, returned: object) -> str:
    """Return what a check says is missing; any other value than a text or None is a mistake of its author."""
    if returned is None or isinstance(returned, str):
        return (returned or "").strip()
    if inspect.iscoroutine(returned):
        returned.close()
    kind = type(returned).__name__
    return f"the preflight of {handler.name} returned {kind}; it must return a text that says what is missing, or None"


def blocked_wait(missing_now: str, waited: timedelta) -> Wait:
    """Return the wait of a run that has waited so long for what does not come back by itself."""
    return Wait(_pause(waited), clean_text(f"{BLOCKED_PREFIX}{missing_now}", MAX_HANDLER_REASON_CHARS))


def is_blocked(reason: str | None) -> bool:
    """Whether a suspended run with this reason misses something that does not come back by itself."""
    return (reason or "").startswith(BLOCKED_PREFIX)


def alert_of(claim: Claim, reason: str, now: datetime, deliver_to: tuple[str, ...]) -> NewTask:
    """Return a reminder that reports the blocked run to the user; the key makes it one, however often it is stored."""
    task, text = claim.task, reason.removeprefix(BLOCKED_PREFIX)
    message = f"{task.title} waits, and continues when this is fixed: {text}"
    alert = secondary_task(
        task, now, title=f"Blocked: {task.title}", action=REMINDER_ACTION, payload={"message": message}
    )
    alert = replace(alert, deliver_to=deliver_to)
    run = Run(new_id("r"), alert.id, task.tenant, now, State.SCHEDULED, wake_at=now)
    key = IdempotencyKey(BLOCKED_ALERT_KEY.format(claim.run.id), {"blocked": claim.run.id})
    return NewTask(alert, run, task.owner, key)


def next_check(run_id: str, since: datetime, now: datetime) -> datetime:
    """Return when a blocked run that is not due is checked again, spread so that many do not come at once."""
    pause = _pause(now - since)
    return now + pause + pause * _SPREAD_RATIO * (crc32(run_id.encode()) / _CRC_COUNT)


def _pause(waited: timedelta) -> timedelta:
    """Wait as long again as the run has waited, so that the pauses double."""
    return min(max(waited, MIN_PREFLIGHT_PAUSE), MAX_PREFLIGHT_PAUSE)

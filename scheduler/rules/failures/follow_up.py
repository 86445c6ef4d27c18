"""The `on_failure` of a task: a channel to notify, a task to run, and a tier for the next attempts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.ids import new_id
from duetime.scheduler.records import NewTask
from duetime.scheduler.request import REMINDER_ACTION
from duetime.scheduler.rules.failures.secondary_task import secondary_task
from duetime.scheduler.rules.sanitize import clean_text
from duetime.scheduler.run_records import Claim, Failure, MadeTask, Settlement
from duetime.scheduler.task import Notify, RetryPolicy, Run, State, Task, Tier

ON_FAILURE_NOTIFY: Final = "notify"
ON_FAILURE_RUN: Final = "run"
ON_FAILURE_TIER: Final = "tier"
ON_FAILURE_MEMBERS: Final = (ON_FAILURE_NOTIFY, ON_FAILURE_RUN, ON_FAILURE_TIER)
"""The members of `on_failure`."""

FAILURE_LABEL: Final = "on_failure"
"""The label of a task that a failure made."""

MAX_FAILURE_REASON_CHARS: Final = 1_000


def has_failed(settlement: Settlement) -> bool:
    """Whether a run failed, expired, or succeeded without what its task expects."""
    return settlement.unverified or settlement.to in {State.FAILED, State.EXPIRED}


def with_follow_up(settlement: Settlement, claim: Claim, now: datetime) -> Settlement:
    """Add the task that follows from a failure, and the tier that the task has from now on.

    An attempt that failed raises the tier already; the task runs when no attempt is left.
    """
    on_failure = claim.task.on_failure
    if not on_failure or claim.run.cancel_requested:
        return settlement
    failed = has_failed(settlement)
    if ON_FAILURE_TIER in on_failure and (failed or settlement.kind is EventKind.RETRYING):
        settlement = replace(settlement, raises=Tier(on_failure[ON_FAILURE_TIER]))
    if ON_FAILURE_RUN in on_failure and failed:
        settlement = replace(settlement, follow_up=_follow_up(claim, settlement, on_failure[ON_FAILURE_RUN], now))
    return settlement


def is_more_urgent(tier: Tier, than: Tier) -> bool:
    """Whether a tier goes before another one."""
    return tier.rank < than.rank


def _follow_up(claim: Claim, settlement: Settlement, terms: Mapping[str, Any], now: datetime) -> MadeTask:
    failure = _failure(claim, settlement)
    task = _task(claim.task, settlement, terms, failure, now)
    run = Run(new_id("r"), task.id, task.tenant, now, State.SCHEDULED, wake_at=now)
    return MadeTask(NewTask(task, run, DUETIME_ACTOR), failure)


def _failure(claim: Claim, settlement: Settlement) -> Failure:
    why = clean_text(settlement.error or settlement.reason or settlement.to, MAX_FAILURE_REASON_CHARS)
    return Failure(claim.task.id, claim.run.id, claim.task.title, settlement.to, why, settlement.result)


def _task(failed: Task, settlement: Settlement, terms: Mapping[str, Any], failure: Failure, now: datetime) -> Task:
    """Return the task of a failure: nothing follows from its own failure, so that it never makes another one."""
    payload = dict(terms.get("payload", {}))
    is_reminder = terms["action"] == REMINDER_ACTION
    if is_reminder and not payload.get("message"):
        payload["message"] = failure.sentence
    title = terms.get("title") or f"On failure: {failed.title}"
    return replace(
        secondary_task(failed, now, title=title, action=terms["action"], payload=payload),
        retry=_retry(terms.get("retry")),
        labels=tuple(dict.fromkeys((*failed.labels, FAILURE_LABEL))),
        priority=min(settlement.raises or failed.priority, failed.priority, key=lambda tier: tier.rank),
        needs=dict(terms.get("needs", {})),
        notify=Notify.ALWAYS if is_reminder else failed.notify,
    )


def _retry(given: Mapping[str, Any] | None) -> RetryPolicy:
    if given is None:
        return RetryPolicy()
    backoff, longest = (timedelta(seconds=given[name]) for name in ("backoff_seconds", "max_backoff_seconds"))
    return RetryPolicy(given["max_attempts"], backoff, longest)

"""The events of an end: how the attempt ended, the deadline that it missed, the next occurrence."""

from __future__ import annotations

from datetime import datetime, timedelta

from duetime.scheduler.events import DUETIME_ACTOR, SPAWNED_COUNT_MEMBER, SPAWNED_MEMBER, EventKind
from duetime.scheduler.rules.order import penalty
from duetime.scheduler.rules.states import check_move
from duetime.scheduler.run_records import Settlement
from duetime.scheduler.store.schema.rows import (
    in_json,
)
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd, Claimed
from duetime.scheduler.task import Json, Run, State

OVERLAPPED_REASON = "run {} was still open"
"""Why an occurrence was left out."""

WAITS_MEMBER = "waits_seconds"
"""In the event of a suspension: for how long the run waits, if not until an instant of the clock."""

FOLLOW_UP_MEMBER = "follow_up"
"""In the event of a failure: the task that follows from it."""

MAX_TASKS_IN_EVENT = 5
"""Spawned tasks that the event of an end names; it counts all of them."""


def entries(ending: AttemptEnd, now: datetime) -> list[event_log.EventValues]:
    claim, settlement = ending.claim, ending.settlement
    ended = event_log.entry(
        claim.tenant,
        claim.task_id,
        claim.run_id,
        now,
        kind=settlement.kind,
        actor=claim.worker or DUETIME_ACTOR,
        reason=settlement.reason,
        move=(claim.state, settlement.to),
        attempt=claim.attempt or None,
        after=_after(settlement),
    )
    late = [_missed_entry(ending, now)] if _missed(ending, now) else []
    paused = [_paused_entry(ending, now)] if settlement.pauses else []
    return [ended, *late, *(_next_entry(run, claim, now) for run in ending.beginning()), *paused]


def _after(settlement: Settlement) -> dict[str, Json] | None:
    if settlement.follow_up is not None:
        return {FOLLOW_UP_MEMBER: settlement.follow_up.new.task.id}
    if settlement.spawned:
        named = [new.task.id for _, new in settlement.spawned[:MAX_TASKS_IN_EVENT]]
        return {SPAWNED_MEMBER: named, SPAWNED_COUNT_MEMBER: len(settlement.spawned)}
    return None if settlement.waits is None else {WAITS_MEMBER: settlement.waits.total_seconds()}


def _missed(ending: AttemptEnd, now: datetime) -> bool:
    """Whether the run ended without meeting its deadline; a run ends once, so this is recorded once."""
    deadline = ending.claim.deadline
    if ending.settlement.to is State.EXPIRED:
        return deadline is not None
    return deadline is not None and now > deadline and ending.settlement.to in {State.SUCCEEDED, State.FAILED}


def _missed_entry(ending: AttemptEnd, now: datetime) -> event_log.EventValues:
    claim = ending.claim
    deadline = claim.deadline or now
    late = max(now - deadline, timedelta(0))
    cost = penalty(claim.penalty, late, deadline - claim.scheduled_for)
    return event_log.entry(
        claim.tenant,
        claim.task_id,
        claim.run_id,
        now,
        kind=EventKind.DEADLINE_MISSED,
        actor=DUETIME_ACTOR,
        attempt=claim.attempt or None,
        after={"deadline": in_json(claim.deadline), "late_seconds": late.total_seconds(), "penalty": cost},
    )


def _paused_entry(ending: AttemptEnd, now: datetime) -> event_log.EventValues:
    claim = ending.claim
    return event_log.entry(
        claim.tenant,
        claim.task_id,
        claim.run_id,
        now,
        kind=EventKind.PAUSED,
        actor=DUETIME_ACTOR,
        reason=ending.settlement.pauses,
        before={"paused": False},
        after={"paused": True},
        revision=claim.revision + 1,
    )


def _next_entry(run: Run, claim: Claimed, now: datetime) -> event_log.EventValues:
    check_move(None, run.state)
    left_out = run.state is State.SKIPPED
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.SKIPPED if left_out else EventKind.NEXT_OCCURRENCE,
        actor=DUETIME_ACTOR,
        reason=OVERLAPPED_REASON.format(claim.run_id) if left_out else None,
        move=(None, run.state),
        after={"scheduled_for": in_json(run.scheduled_for), "number": run.number},
    )

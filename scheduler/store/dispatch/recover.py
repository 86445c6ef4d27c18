"""After a crash: attempts that a dead runner left running, or that no worker holds, end as crashed.

After the clock was set back, delays of retries, waits and deliveries end as much earlier, or restart where that is not
known. Else they would wait until the old time comes again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.outcomes import Yielded
from duetime.scheduler.records import is_external_worker
from duetime.scheduler.rules.limits.pool import Pool, costs_of, full_charge
from duetime.scheduler.rules.retry import MAX_CRASHES
from duetime.scheduler.rules.settlement import settle as settle_attempt
from duetime.scheduler.run_records import Claim, LostAttempt, Settlement
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.unreadable import without
from duetime.scheduler.store.schema.damage import LONG_AGO, is_damaged
from duetime.scheduler.store.schema.rows import task_and_run
from duetime.scheduler.store.schema.tables.deliveries import deliveries
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import attempts, runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.locks import check_epoch
from duetime.scheduler.store.statements import dependants, read, repair, settle
from duetime.scheduler.store.statements.endings import endings
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd, Claimed
from duetime.scheduler.store.statements.endings.conclusions import Conclude, concluding
from duetime.scheduler.store.statements.endings.events import WAITS_MEMBER
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.ready_runs import ATTEMPTS_OF_RUNS, IS_RUNNING, RUNS_OF_TASKS
from duetime.scheduler.task import State
from sqlalchemy import Connection, Row, and_, bindparam, select, update

LostAttempts = dict[str, LostAttempt]

ENDED_IN_ORDER = "the worker stopped"
"""The reason of an attempt whose worker announces its end; it stays if the worker is killed before the hand-back."""

_WHOLE = TASK_AND_RUN.where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
_HELD = select(runs.c.id, runs.c.reserved, runs.c.token).where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
_ANNOUNCED = select(attempts.c.run_id).where(
    attempts.c.run_id.in_(bindparam("run_ids", expanding=True)),
    attempts.c.ended_at.is_(None),
    attempts.c.reason == ENDED_IN_ORDER,
)
_ORPHANS = select(runs.c.id).select_from(ATTEMPTS_OF_RUNS).where(IS_RUNNING, runs.c.epoch < bindparam("newest"))
_PAST = runs.c.lease_until < bindparam("before", type_=Instant())
_EXPIRED_LEASES = select(runs.c.id, runs.c.lease_until).select_from(ATTEMPTS_OF_RUNS).where(IS_RUNNING, _PAST)
_UNOWNED = (
    select(runs.c.id)
    .select_from(RUNS_OF_TASKS)
    .where(runs.c.state == State.RUNNING, _PAST)
    .where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
    .with_for_update(of=[runs, tasks], skip_locked=True)
)
_SUSPENSION = (
    select(events.c.after)
    .where(events.c.run_id == runs.c.id, events.c.task_id == runs.c.task_id, events.c.kind == EventKind.SUSPENDED)
    .order_by(events.c.seq.desc())
    .limit(1)
    .scalar_subquery()
)
_DELAYED = (
    select(runs.c.id, runs.c.attempt, runs.c.state, runs.c.wake_at, attempts.c.started_at, attempts.c.ended_at)
    .add_columns(_SUSPENSION.label("suspension"))
    .join(attempts, and_(attempts.c.run_id == runs.c.id, attempts.c.number == runs.c.attempt))
    .where(runs.c.state.in_((State.RETRYING, State.SUSPENDED)), runs.c.wake_at > bindparam("now", type_=Instant()))
)
_AGAIN = Batch(
    update(runs)
    .where(runs.c.id == bindparam("run_id"), runs.c.wake_at.is_not(None))
    .values(wake_at=bindparam("again"), listed_at=bindparam("again"))
)
_DELIVERIES = (
    select(deliveries.c.id, deliveries.c.next_at, runs.c.ended_at)
    .join(runs, runs.c.id == deliveries.c.run_id)
    .where(deliveries.c.next_at > bindparam("now", type_=Instant()))
)
_DELIVER = Batch(
    update(deliveries).where(deliveries.c.id == bindparam("delivery_id")).values(next_at=bindparam("again"))
)
_ENDED = Batch(
    update(attempts)
    .where(attempts.c.run_id == bindparam("of_run"), attempts.c.number == bindparam("of_attempt"))
    .values(started_at=bindparam("began"), ended_at=bindparam("now"))
)


def orphans(connection: Connection, epoch: int) -> list[str]:
    """Return the runs that older runners left running."""
    return list(connection.execute(_ORPHANS, {"newest": epoch}).scalars())


def recover(
    connection: Connection,
    only: Collection[str] | None,
    *,
    epoch: int,
    conclude: Conclude | None,
    now: datetime,
    pools: Mapping[str, Pool],
) -> LostAttempts:
    check_epoch(connection, epoch)
    found = [run_id for run_id in orphans(connection, epoch) if only is None or run_id in only]
    return _crash(connection, found, conclude, now, pools)


def lapsed(connection: Connection, before: datetime) -> dict[str, datetime]:
    """Return the lease ends of running attempts whose lease expired before `before`."""
    found, _ = unreadable.every(connection, without(connection, _EXPIRED_LEASES, runs.c.id), {"before": before})
    return {row.id: LONG_AGO if is_damaged(row) else row.lease_until for row in found}


def recover_lapsed(
    connection: Connection,
    orphans: Collection[str],
    *,
    epoch: int | None,
    before: datetime,
    conclude: Conclude | None,
    now: datetime,
    pools: Mapping[str, Pool],
) -> LostAttempts:
    check_epoch(connection, epoch)
    found = connection.execute(_UNOWNED, {"before": before, "run_ids": list(orphans)}).scalars()
    return _crash(connection, sorted(found), conclude, now, pools)


def _crash(
    connection: Connection,
    orphans: list[str],
    conclude: Conclude | None,
    now: datetime,
    pools: Mapping[str, Pool],
) -> LostAttempts:
    """End the attempts, as crashed unless their worker had announced its end.

    Return them by run.
    """
    if not orphans:
        return {}
    held_by, _ = unreadable.every(connection, _HELD, {"run_ids": orphans})
    held = {row.id: ({}, "") if is_damaged(row) else (row.reserved or {}, row.token or "") for row in held_by}
    rows, some_damaged = unreadable.every(connection, _WHOLE, {"run_ids": list(held)})
    lost = repair.end(connection, list(held), now) if some_damaged else []
    whole = [row for row in rows if not is_damaged(row)] if some_damaged else rows
    found = [(task, run) for task, run in map(task_and_run, whole) if run.state is State.RUNNING]
    damaged = {run.run_id: LostAttempt(held[run.run_id][1], EventKind.DAMAGED) for run in lost}
    if not found:
        return damaged
    claimed = settle.claimed(connection, [run.id for _, run in found])
    last = read.compared_with(connection, [task for task, _ in found])
    claims = [
        Claim(run, task, claimed[run.id].worker, *held[run.id], previous=last.get(task.id)) for task, run in found
    ]
    announced = set(connection.execute(_ANNOUNCED, {"run_ids": [claim.run.id for claim in claims]}).scalars())
    ended = [_ending(claimed[claim.run.id], claim, conclude, now, announced) for claim in claims]
    endings.write(connection, [_priced(each, pools) for each in ended], now)
    dependants.follow_ends(connection, ended, now)
    return damaged | {
        claim.run.id: LostAttempt(claim.token, end.settlement.kind) for claim, end in zip(claims, ended, strict=True)
    }


def _priced(ending: AttemptEnd, pools: Mapping[str, Pool]) -> AttemptEnd:
    settlement = ending.settlement
    return replace(ending, settlement=replace(settlement, costs=costs_of(settlement.used, pools)))


def _ending(
    claimed: Claimed, claim: Claim, conclude: Conclude | None, now: datetime, announced: Collection[str]
) -> AttemptEnd:
    if claim.run.id in announced:
        handed_back = settle_attempt(claim, Yielded(reason=ENDED_IN_ORDER), now=now, jitter=0.0)
        return AttemptEnd(claimed, replace(handed_back, used=full_charge(claim.reserved)))
    settlement = _settlement(claim, now)
    if settlement.to is not State.RETRYING:
        settlement = concluding(conclude, claim, settlement)
    return AttemptEnd(claimed, settlement, crashed=True)


def _settlement(claim: Claim, now: datetime) -> Settlement:
    run, crashes = claim.run, claim.run.crashes + 1
    lost = f"its worker process ({claim.worker}) died or was paused longer than its lease"
    if is_external_worker(claim.worker):
        lost = f"its external worker ({claim.worker}) sent no heartbeat within its lease"
    reason = f"{lost}, during the attempt (crash {crashes} of {MAX_CRASHES})"
    to = State.FAILED if crashes >= MAX_CRASHES else State.RETRYING
    if run.cancel_requested:
        to, reason = State.CANCELLED, f"cancelled; {lost}, before it stopped"
    return Settlement(
        run_id=run.id,
        attempt=run.attempt,
        task_revision=claim.task.revision,
        to=to,
        kind=EventKind.CRASHED,
        outcome="crashed",
        reason=reason,
        wake_at=now if to is State.RETRYING else None,
        failures=run.failures,
        error=reason if to is State.FAILED else None,
        dead_letter=to is State.FAILED,
        used=full_charge(claim.reserved),
    )


def restart_delays(connection: Connection, now: datetime, *, back: timedelta | None) -> list[str]:
    """Let delays end `back` earlier, by which the clock was set back; return their runs.

    Without it only those of attempts that ended in the future are known to be too long: these restart.
    """
    found = [row for row in unreadable.rows(connection, _DELAYED, {"now": now}) if _is_delay(row)]
    moved = [row for row in found if back is not None or row.ended_at > now]
    _AGAIN.run(connection, [{"run_id": row.id, "again": _again(row.wake_at, row.ended_at, now, back)} for row in moved])
    ended = [
        {"of_run": row.id, "of_attempt": row.attempt, "began": min(row.started_at, now), "now": now}
        for row in moved
        if row.ended_at > now
    ]
    _ENDED.run(connection, ended)
    sent = [
        row
        for row in unreadable.rows(connection, _DELIVERIES, {"now": now})
        if back is not None or _ahead(row.ended_at, now)
    ]
    _DELIVER.run(
        connection, [{"delivery_id": row.id, "again": _again(row.next_at, row.ended_at, now, back)} for row in sent]
    )
    return [row.id for row in moved]


def _is_delay(row: Row[Any]) -> bool:
    """Whether the run waits for a time to pass, not until an instant of the clock."""
    return row.state is State.RETRYING or WAITS_MEMBER in (row.suspension or {})


def _ahead(ended_at: datetime | None, now: datetime) -> bool:
    return ended_at is not None and ended_at > now


def _again(at: datetime, ended_at: datetime, now: datetime, back: timedelta | None) -> datetime:
    return max(now, now + (at - ended_at) if back is None else at - back)

"""The deadline timer: a run that can no longer meet its deadline expires (hard) or gets a key by patience (soft).

`drop_at` of an open run is set while the timer must examine it, so a partial index finds due runs. A pause stops this
timer like the other; deadlines that passed during the pause expire at the resume.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from zoneinfo import ZoneInfoNotFoundError

from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.states import blocked_by, check_move
from duetime.scheduler.rules.time.times import describe_deadline, rough_length
from duetime.scheduler.run_records import Claim, Expired, ReadyRun, Settlement
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.damage import is_damaged
from duetime.scheduler.store.schema.rows import IS_PAUSED, NOT_PAUSED, task_and_run
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.types import Instant
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.locks import exactly
from duetime.scheduler.store.statements import dependants, repair, settle
from duetime.scheduler.store.statements.endings import endings
from duetime.scheduler.store.statements.endings.claimed_run import AttemptEnd, Claimed
from duetime.scheduler.store.statements.endings.conclusions import Conclude, concluding, unclaimed
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.ready_runs import READY_COLUMNS, RUNS_OF_TASKS, ready_run
from duetime.scheduler.store.statements.signals import ended_waits
from duetime.scheduler.store.statements.waiters import with_waiters
from duetime.scheduler.task import DeadlineType, Run, State, Task
from sqlalchemy import Connection, bindparam, false, null, select, true, update

_NOT_RUNNING = runs.c.state != State.RUNNING
_HARD, _SOFT = tasks.c.deadline_type == DeadlineType.HARD, tasks.c.deadline_type == DeadlineType.SOFT
_OPEN = (runs.c.ended_at.is_(None), NOT_PAUSED, tasks.c.paused == false())
_PASSED = (runs.c.drop_at <= bindparam("now", type_=Instant()), *_OPEN)

_LOST = (
    select(runs.c.id)
    .select_from(RUNS_OF_TASKS)
    .where(*_PASSED, _HARD, _NOT_RUNNING)
    .order_by(runs.c.drop_at)
    .limit(bindparam("most"))
)
_LOST_LOCKED = _LOST.with_for_update(of=[runs, tasks], skip_locked=True)
_LOST_HELD = (
    select(runs.c.id)
    .select_from(RUNS_OF_TASKS)
    .where(IS_PAUSED, runs.c.ended_at.is_(None), tasks.c.paused == false())
    .where(runs.c.drop_at <= bindparam("now", type_=Instant()), _HARD, _NOT_RUNNING)
    .order_by(runs.c.drop_at)
    .limit(bindparam("most"))
)
_LOST_HELD_LOCKED = _LOST_HELD.with_for_update(of=[runs, tasks], skip_locked=True)
_WHOLE = TASK_AND_RUN.where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
_EXPIRE = Batch(
    update(runs)
    .where(runs.c.id == bindparam("run_id"), runs.c.state == bindparam("was"), runs.c.ended_at.is_(None))
    .values(
        state=State.EXPIRED,
        ended_at=bindparam("at"),
        listed_at=bindparam("at"),
        wake_at=null(),
        error=bindparam("why"),
        last_failure=true(),
    )
)
_LATE = (
    select(*READY_COLUMNS, runs.c.state)
    .select_from(RUNS_OF_TASKS)
    .where(*_PASSED, _SOFT)
    .order_by(runs.c.drop_at)
    .limit(bindparam("most"))
)
_LATE_IDS = _LATE.with_only_columns(runs.c.id)
_LATE_LOCKED = _LATE.with_for_update(of=[runs, tasks], skip_locked=True)
_RELAX = update(runs).where(runs.c.id.in_(bindparam("run_ids", expanding=True))).values(drop_at=null())

_REDATE = Batch(
    update(runs)
    .where(runs.c.id == bindparam("run_id"), runs.c.drop_at.is_not(None), runs.c.ended_at.is_(None))
    .values(drop_at=bindparam("at"))
)


def lost(connection: Connection, limit: int, now: datetime, *, held: bool = False) -> list[str]:
    """Return at most `limit` runs whose hard deadline cannot be met any more; `held` ones wait for their series."""
    wanted = unreadable.without(connection, _LOST_HELD if held else _LOST, runs.c.id)
    return list(connection.execute(wanted, {"now": now, "most": limit}).scalars())


def late(connection: Connection, limit: int, now: datetime) -> list[str]:
    """Return at most `limit` soft runs that are past `drop_at`."""
    wanted = unreadable.without(connection, _LATE_IDS, runs.c.id)
    return list(connection.execute(wanted, {"now": now, "most": limit}).scalars())


def expire(
    connection: Connection,
    only: Collection[str] | None,
    limit: int,
    conclude: Conclude | None,
    now: datetime,
    *,
    held: bool = False,
) -> list[Expired]:
    wanted = unreadable.without(connection, _LOST_HELD_LOCKED if held else _LOST_LOCKED, runs.c.id, only)
    found = list(connection.execute(wanted, {"now": now, "most": limit}).scalars())
    if not found:
        return []
    rows, some_damaged = unreadable.every(connection, _WHOLE, {"run_ids": found})
    failed = repair.end(connection, found, now) if some_damaged else []
    pairs = [task_and_run(row) for row in rows if not (some_damaged and is_damaged(row))]
    return failed + _expire(connection, pairs, conclude, now) if pairs else failed


def _expire(
    connection: Connection, pairs: Sequence[tuple[Task, Run]], conclude: Conclude | None, now: datetime
) -> list[Expired]:
    claimed = settle.claimed(connection, [run.id for _, run in pairs])
    found = [_ending(claimed[claim.run.id], claim, conclude) for claim in unclaimed(connection, pairs)]
    exactly(len(found), _EXPIRE.run(connection, [_row(ending, now) for ending in found]))
    endings.follow(connection, found, now)
    ended_waits.end(connection, [(run.id, task.id, run.state) for task, run in pairs], now)
    dependants.follow_ends(connection, found, now)
    return [Expired(ending.claim.run_id, ending.claim.task_id) for ending in found]


def relax(connection: Connection, only: Collection[str] | None, limit: int, now: datetime) -> list[ReadyRun]:
    wanted = unreadable.without(connection, _LATE_LOCKED, runs.c.id, only)
    found, some_damaged = unreadable.every(connection, wanted, {"now": now, "most": limit})
    if some_damaged:
        found = repair.whole(connection, found, now)
    if found:
        connection.execute(_RELAX, {"run_ids": [row.id for row in found]})
    return with_waiters(connection, [ready_run(row, now) for row in found if row.state is State.READY], now)


def redate(connection: Connection, drops: Mapping[str, datetime]) -> None:
    _REDATE.run(connection, [{"run_id": run_id, "at": at} for run_id, at in drops.items()])


def _ending(claimed: Claimed, claim: Claim, conclude: Conclude | None) -> AttemptEnd:
    task, run = claim.task, claim.run
    reason = _reason(task, run)
    settlement = Settlement(
        run_id=run.id,
        attempt=run.attempt,
        task_revision=task.revision,
        to=State.EXPIRED,
        kind=EventKind.EXPIRED,
        outcome="expired",
        reason=reason,
        failures=run.failures,
        error=reason,
    )
    return AttemptEnd(claimed, concluding(conclude, claim, settlement))


def _row(ending: AttemptEnd, now: datetime) -> dict[str, object]:
    check_move(ending.claim.state, State.EXPIRED)
    return {"run_id": ending.claim.run_id, "was": ending.claim.state, "at": now, "why": ending.settlement.error}


def _reason(task: Task, run: Run) -> str:
    if run.deadline is None or run.drop_at is None:
        return "its deadline could no longer be met"
    needed, missing = run.deadline - run.drop_at, blocked_by(run)
    why = f": it was blocked, {missing}" if missing else f": it needs about {rough_length(needed)}" if needed else ""
    return f"its deadline of {_in_words(run.deadline, run, task.timezone)} could no longer be met{why}"


def _in_words(deadline: datetime, run: Run, zone: str) -> str:
    try:
        return describe_deadline(deadline, run.scheduled_for, zone)
    except ZoneInfoNotFoundError:  # written by a machine with newer zone data
        return f"{describe_deadline(deadline, run.scheduled_for, 'UTC')} UTC"

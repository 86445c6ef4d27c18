"""Due runs of series of which an occurrence was moved past others: those that an open run holds up are left out.

A run that waits for the end of another one is kept from the timers, as one of a paused task. `endings.turns` and each
change of its task let it go, so that the timers find it again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.records import Change, ChangeOrigin
from duetime.scheduler.remedies import OVERTAKEN_REASON
from duetime.scheduler.rules.occurrences import next_run, skip_run
from duetime.scheduler.rules.series.moved_overlap import Lot, blocking_run, give_way, open_since, overlap_action
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import event_log, read
from duetime.scheduler.store.statements.endings.events import OVERLAPPED_REASON
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, Row, bindparam, literal_column, select, true, update

STILL_OPEN_REASON: Final = "run {} is still open"
"""Why a due run waits."""

_WITH_MOVED = (
    select(runs.c.task_id)
    .where(runs.c.task_id.in_(bindparam("task_ids", expanding=True)), runs.c.slot.is_not(None))
    .where(literal_column("NOT runs.current AND runs.ended_at IS NULL"))
)
_HOLD = update(runs).where(runs.c.id == bindparam("run_id")).values(paused=true(), first_ready_at=bindparam("since"))
_FOLLOWED = update(tasks).where(tasks.c.id == bindparam("of_task")).values(followed=true())
"""Something follows the next end of the task, so that no statement ends its run alone."""

_GIVES_WAY = update(runs).where(runs.c.id == bindparam("run_id")).values(overtaken_at=bindparam("at"))


def without_held(
    connection: Connection, found: Sequence[Row[Any]], changed: Collection[str], now: datetime
) -> list[Row[Any]]:
    """Return the due runs that nothing of their series holds up, of those that were `changed`.

    The others wait, are skipped, or overtake what is open.
    """
    series = set(connection.execute(_WITH_MOVED, {"task_ids": sorted(changed)}).scalars())
    starting = defaultdict[str, set[str]](set)
    for row in sorted((row for row in found if row.task_id in series), key=lambda row: (row.wake_at, row.id)):
        record = read.locked_record(connection, row.tenant, row.task_id)
        if _goes(connection, record, row.id, starting[row.task_id], now):
            starting[row.task_id].add(row.id)
    return [row for row in found if row.task_id not in series or row.id in starting[row.task_id]]


def _goes(connection: Connection, record: TaskRecord, run_id: str, starting: set[str], now: datetime) -> bool:
    """Whether a due run may start; what holds it up is decided otherwise."""
    run = next((each for each in (record.run, *record.side_runs) if each.id == run_id), None)
    if run is None or run.state is not State.SCHEDULED:
        return run is not None and run.ended_at is None
    other = blocking_run(record, run, starting)
    if other is None:
        return True
    lot = overlap_action(record, run, other, now)
    if lot is Lot.SKIPPED:
        _skip(connection, record, run, other, now)
        return False
    if lot is Lot.OVERTAKES and _overtake(connection, record, run, other, now):
        again = read.record(connection, run.tenant, run.task_id)
        return _goes(connection, again, run_id, starting, now)
    _hold(connection, record, run, other, now)
    return False


def _skip(connection: Connection, record: TaskRecord, run: Run, other: Run, now: datetime) -> None:
    task, reason = record.task, OVERLAPPED_REASON.format(other.id)
    left = replace(skip_run(run, now), error=reason)
    if run.current:
        coming = next_run(task, run, now, number=run.number)
        change = Change(task, left, next_run=coming and replace(coming, missed=0), kind=EventKind.SKIPPED)
        changing.apply(connection, record, change, ChangeOrigin(DUETIME_ACTOR, EventKind.SKIPPED, reason), now)
        return
    changing.write_run(connection, run, left)
    _note(connection, run, EventKind.SKIPPED, reason, now, move=(run.state, left.state))


def _overtake(connection: Connection, record: TaskRecord, run: Run, other: Run, now: datetime) -> bool:
    """Let an open run give way to another one; return whether it has ended by that."""
    task, way = record.task, give_way(other, run, now)
    ends = way.state is State.CANCELLED
    coming = next_run(task, other, now) if other.current and ends else None
    if other.cancel_requested or (other.current and ends and coming is None):
        return False
    kind = EventKind.CANCELLED if ends else EventKind.CANCEL_REQUESTED
    if other.current:
        change = Change(task, way, next_run=coming, kind=kind)
    else:
        connection.execute(_GIVES_WAY, {"run_id": other.id, "at": way.overtaken_at})
        change = Change(task, record.run, cancelled_side_runs=(other,), kind=kind)
    changing.apply(connection, record, change, ChangeOrigin(DUETIME_ACTOR, kind, OVERTAKEN_REASON), now)
    return ends


def _hold(connection: Connection, record: TaskRecord, run: Run, other: Run, now: datetime) -> None:
    connection.execute(_HOLD, {"run_id": run.id, "since": open_since(record.task, run)})
    connection.execute(_FOLLOWED, {"of_task": run.task_id})
    _note(connection, run, EventKind.WAIT_BEGAN, STILL_OPEN_REASON.format(other.id), now)


def _note(
    connection: Connection,
    run: Run,
    kind: EventKind,
    reason: str,
    now: datetime,
    *,
    move: tuple[State | None, State] | None = None,
) -> None:
    of = (run.tenant, run.task_id, run.id, now)
    event_log.append(connection, [event_log.entry(*of, kind=kind, actor=DUETIME_ACTOR, reason=reason, move=move)])

"""Dependencies of tasks: stored with a new task, read for explanations and handlers, opened when a task runs again.

So are waits for signals, as far as tasks have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from duetime.scheduler import remedies
from duetime.scheduler.chain.dependency import DependentTask, upstreams_within
from duetime.scheduler.errors import Refused, TaskNotFound
from duetime.scheduler.events import EventKind
from duetime.scheduler.ids import new_id
from duetime.scheduler.records import NewTask
from duetime.scheduler.rules.occurrences import with_deadline_like
from duetime.scheduler.rules.series.occurrence_approval import without_early_deadline
from duetime.scheduler.rules.series.overtake import with_overtake_time
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import IS_CURRENT, new_run_values, task_and_run
from duetime.scheduler.store.schema.stored_change import StoredChange
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.schema.values import FIRST_INSTANT
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.recordset import Rows
from duetime.scheduler.store.statements import dependants, event_log, read, waiters
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.signals import ended_waits, kept_waits, name_locks, new_waits, turns, wait_rows
from duetime.scheduler.store.statements.waiters import OPEN_DEPENDENCY
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskRecord
from sqlalchemy import BindParameter, Connection, and_, bindparam, false, insert, null, select, true, update

MAX_TASKS_REOPENED = 1_000
"""Tasks that one statement opens the dependencies on, or lets wait again; a statement takes so many parameters only."""

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_LOCK = (
    select(tasks.c.id, tasks.c.tenant, tasks.c.followed)
    .where(tasks.c.id.in_(_IDS))
    .order_by(tasks.c.id)
    .with_for_update()
)
_FOLLOWED = Batch(
    update(tasks).where(tasks.c.id == bindparam("of_task"), tasks.c.followed == false()).values(followed=true())
)
_ADD = Batch(insert(dependencies), ("task_id", "upstream_id", "tenant", "after_failure", "valid_output"))
_WAIT_FOR = select(dependencies).where(dependencies.c.upstream_id.in_(_IDS), OPEN_DEPENDENCY)
_WAITED = (
    select(events.c.id)
    .where(events.c.task_id == bindparam("of_task"), events.c.run_id == bindparam("of_run"))
    .where(events.c.from_state == State.WAITING, events.c.to_state == State.CANCELLED)
    .limit(1)
)
_ENDED_WITH = select(dependencies.c.upstream_id).where(
    dependencies.c.task_id == bindparam("of_task"), dependencies.c.ended_run == bindparam("of_run")
)
_OPEN_ABOVE = (
    select(dependencies.c.upstream_id).where(dependencies.c.task_id == bindparam("of_task"), OPEN_DEPENDENCY).limit(1)
)
_CLOSED_SINCE = and_(dependencies.c.upstream_id.in_(_IDS), dependencies.c.closed_at >= bindparam("since"))
_CLOSED = select(dependencies.c.ended_run).where(_CLOSED_SINCE)
_REOPEN = (
    update(dependencies)
    .where(_CLOSED_SINCE)
    .values(closed_at=null(), outcome=null(), ended_run=null(), mismatch=null())
)
_ENDED_RUNS = (
    TASK_AND_RUN.where(runs.c.id.in_(bindparam("run_ids", expanding=True)), IS_CURRENT, runs.c.ended_at.is_not(None))
    .with_for_update(of=tasks)
    .order_by(tasks.c.id)
)
_TAKEN_BACK = frozenset({EventKind.CANCEL_UNDONE, EventKind.UNDONE})
_PAST = update(runs).where(runs.c.id.in_(bindparam("run_ids", expanding=True))).values(current=false())


def add(connection: Connection, new: Sequence[NewTask], now: datetime) -> dict[str, TaskRecord]:
    """Store what new tasks wait for, and return these tasks as they are: what has ended or come is not waited for.

    The upstreams stay locked, so that none of them ends before it is known to be followed. Links that are new
    themselves were stored as followed, and no other transaction sees them yet.
    """
    items = [each for each in new if isinstance(each, DependentTask) and (each.after or each.wait)]
    if not items:
        return {}
    waits = [wait_rows.NewWait(item.task.tenant, item.task.id, item.task.id, item.wait) for item in items if item.wait]
    name_locks.share(connection, wait_rows.names(waits))
    outside = _locked(connection, items, {item.task.id: item.task.tenant for item in new})
    _ADD.run(connection, _rows(items))
    ready = [item.task.id for item in new if item.run.state is State.READY]
    ended = waiters.note_above(connection, [*outside, *ready])
    new_waits.add(connection, waits, now)  # before any run is judged: a wait that is not stored holds nothing
    dependants.follow(connection, ended, now)
    came = dependants.settle_waiting(connection, [each.task_id for each in waits], now)
    dependants.follow(connection, came, now)
    return read.records(connection, [item.task.id for item in items]) if ended or waits else {}


def _locked(connection: Connection, items: Sequence[DependentTask], new: Mapping[str, str]) -> list[str]:
    """Lock the upstreams that are not `new`, in one order, as tasks that others come after; return them."""
    outside = sorted(upstreams_within(items) - new.keys())
    found = connection.execute(_LOCK, {"task_ids": outside}).all() if outside else []
    tenants = {**new, **{row.id: row.tenant for row in found}}
    for item in items:
        for each in item.after:
            if tenants.get(each.upstream_id) != item.task.tenant:
                raise TaskNotFound(each.upstream_id, read.closest(connection, item.task.tenant, each.upstream_id))
    mark_followed(connection, [row.id for row in found if not row.followed])
    return outside


def _rows(items: Sequence[DependentTask]) -> list[dict[str, Any]]:
    return [
        {
            "task_id": item.task.id,
            "upstream_id": each.upstream_id,
            "tenant": item.task.tenant,
            "after_failure": each.after_failure,
            "valid_output": each.valid_output,
        }
        for item in items
        for each in item.after
    ]


def also_after(connection: Connection, spawned: Mapping[str, Sequence[str]]) -> None:
    """Let what waits for the tasks that spawned others, wait for these as well: they are given by who spawned them."""
    found = connection.execute(_WAIT_FOR, {"task_ids": sorted(spawned)}).all()
    rows = [
        {
            "task_id": row.task_id,
            "upstream_id": task_id,
            "tenant": row.tenant,
            "after_failure": row.after_failure,
            "valid_output": None,
        }
        for row in found
        for task_id in spawned[row.upstream_id]
    ]
    _ADD.run(connection, rows)
    mark_followed(connection, {row["upstream_id"] for row in rows})


def mark_followed(connection: Connection, task_ids: Iterable[str]) -> None:
    """Note that others come after these tasks: their ends are followed."""
    batch, rows = followed_marks(task_ids)
    batch.run(connection, rows)


def followed_marks(task_ids: Iterable[str]) -> tuple[Batch, Rows]:
    """Return the batch that notes that others come after these tasks, and its rows: for `together`."""
    return _FOLLOWED, [{"of_task": task_id} for task_id in sorted(task_ids)]


def held_back(connection: Connection, old: Run, run: Run, kind: EventKind) -> Run:
    """Return the run that follows an ended one as waiting for what it comes after, unless it is to run now.

    After a cancelled run it waits if that waited: events that have come since decide. Raises Refused where that ended
    with what it comes after: it would end again at once.
    """
    if kind in _TAKEN_BACK:
        return _as_before_cancel(connection, old, run)
    if kind is EventKind.RUN_NOW or not old.ended_at:
        return run
    comes_after = connection.execute(_OPEN_ABOVE, {"of_task": old.task_id}).first()
    return run if comes_after is None else replace(run, state=State.WAITING, wake_at=None)


def _as_before_cancel(connection: Connection, old: Run, run: Run) -> Run:
    given = {"of_task": old.task_id, "of_run": old.id}
    ended_with = connection.execute(_ENDED_WITH, given).scalars().first()
    if ended_with is not None:
        sentence = f"{old.task_id} was not cancelled itself: it comes after {ended_with}, and ended with it."
        raise Refused(sentence, argument="undo", remedy=remedies.Inspect(ended_with))
    if old.state is not State.CANCELLED or connection.execute(_WAITED, given).first() is None:
        return run
    return replace(run, state=State.WAITING, wake_at=None)


def follow_change(connection: Connection, stored: StoredChange) -> bool:
    """Continue after a change of a task: what comes after it ends or continues with it, and waits when it runs again.

    Returns whether the current run waits again and was judged, so that it may have moved.
    """
    old, run, current, now = stored.old_run, stored.run, stored.current, stored.at
    if current.id == run.id and run.state in TERMINAL and not old.ended_at:
        dependants.follow(connection, {run.task_id: run.state}, now)
    elif current.id != run.id and current.ended_at:  # a change is taken back that had made an ended task run again
        dependants.follow(connection, {run.task_id: current.state}, now, of=current.ended_at)
    elif current.id != run.id and old.ended_at:
        taken_back = stored.kind in _TAKEN_BACK and old.state is State.CANCELLED
        _reopen(connection, [run.task_id], now, since=old.ended_at if taken_back else None)
    if State.WAITING in (old.state, current.state):
        waiters.note(connection, [run.task_id])
    return current.state is State.WAITING and _wait_on(connection, old, current, now)


def _wait_on(connection: Connection, old: Run, current: Run, now: datetime) -> bool:
    """Let events and ends since then decide about a run that waits again; a moved one has a new time."""
    if old.state is State.WAITING:
        kept_waits.move(connection, current.task_id, current.scheduled_for)
        return False
    cancelled = old.state is State.CANCELLED
    if cancelled or not ended_waits.waive(connection, current.task_id, now):
        ended_waits.reopen(connection, current.tenant, current.task_id)
    dependants.follow(connection, dependants.settle_waiting(connection, [current.task_id], now), now)
    return True


def _reopen(connection: Connection, task_ids: Sequence[str], now: datetime, *, since: datetime | None) -> None:
    """Open the dependencies on tasks that run again; the runs that their last end had ended wait again, all the way.

    Of a cancel that is taken back these are what it ended or let go, `since` then: what an earlier run did stays. It is
    all one transaction, however many they are: an end of one of these tasks would miss what is left for later.
    """
    left = list(task_ids)
    while left:
        these, left = left[:MAX_TASKS_REOPENED], left[MAX_TASKS_REOPENED:]
        given = {"task_ids": these, "since": since or FIRST_INSTANT}
        closed = connection.execute(_CLOSED, given).scalars().all()
        if not closed:
            continue
        turns.take_back(connection, these, now)
        if since is not None:
            turns.hold_again(connection, these, since, now)
        connection.execute(_REOPEN, given)
        ended = [run_id for run_id in closed if run_id]
        for first in range(0, len(ended), MAX_TASKS_REOPENED):
            left += _revived(connection, ended[first : first + MAX_TASKS_REOPENED], now)


def _revived(connection: Connection, run_ids: Sequence[str], now: datetime) -> list[str]:
    """Let the next generations of these runs wait, in their place; return their tasks."""
    rows = unreadable.rows(connection, _ENDED_RUNS, {"run_ids": list(run_ids)})
    found = [task_and_run(row) for row in rows]
    again = places.placed(connection, [_again(task, run) for task, run in found])
    pairs = [(*each, new) for each, new in zip(found, again, strict=True)]
    if pairs:
        connection.execute(_PAST, {"run_ids": [run.id for _, run, _ in pairs]})
        places.ADD_RUNS.run(connection, [new_run_values(task, again) for task, _, again in pairs])
        event_log.append(connection, [turns.event_of(None, again, now) for _, _, again in pairs])
        questions.carry_over(connection, pairs, now)
    waiting = kept_waits.kept(connection, [task.id for task, _, _ in pairs])
    for task in (task for task, _, _ in pairs if task.id in waiting):
        ended_waits.reopen(connection, task.tenant, task.id)
    return [task.id for task, _, _ in pairs]


def _again(task: Task, run: Run) -> Run:
    again = Run(
        id=new_id("r"),
        task_id=run.task_id,
        tenant=run.tenant,
        scheduled_for=run.scheduled_for,
        state=State.WAITING,
        generation=run.generation + 1,
        number=run.number,
        slot=run.slot,
        missed=run.missed,
        occurrence=run.occurrence,
    )
    return without_early_deadline(task, with_deadline_like(task, with_overtake_time(task, again), run))

"""Changes a task: read, decide, write, and record one event with the values before and after."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from duetime.scheduler.errors import IllegalMove
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change, ChangeOrigin
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.moved_occurrence import same_time_note
from duetime.scheduler.rules.series.occurrence_approval import without_early_deadline
from duetime.scheduler.rules.series.occurrence_wait import due_again
from duetime.scheduler.rules.series.overtake import with_overtake_time
from duetime.scheduler.rules.states import check_move
from duetime.scheduler.run_records import EndedRun
from duetime.scheduler.store.schema.json_types import policy_to_json, repeat_policy_to_json
from duetime.scheduler.store.schema.rows import folded, held, in_json, listed_at, new_run_values, twin_hash
from duetime.scheduler.store.schema.stored_change import StoredChange
from duetime.scheduler.store.schema.tables.tasks import labels, runs
from duetime.scheduler.store.sql.commit_notes import note_ends
from duetime.scheduler.store.sql.row_updates import run_row, run_update, task_row, task_update
from duetime.scheduler.store.statements import add, event_log, links, read, ready_runs, side_runs
from duetime.scheduler.store.statements.approvals import occurrences, questions
from duetime.scheduler.store.statements.endings import letters as dead_letters
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.store.statements.event_log import FOLLOWED, TASK_DEADLINE
from duetime.scheduler.store.statements.generations import side_generations
from duetime.scheduler.store.statements.graph import relink
from duetime.scheduler.store.statements.side_runs import RunMove
from duetime.scheduler.store.statements.signals import ended_waits, own_waits, run_waits
from duetime.scheduler.task import Json, RepeatPolicy, RetryPolicy, Run, State, Task
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, delete, insert, update

_UNLOGGED_FIELDS = frozenset(
    {"id", "task_id", "tenant", "current", "revision", "updated_at", "failed_before", "repeats", "overtaken_at"}
)
"""Fields whose changes no event shows."""

Fields = dict[str, Any]


def apply(
    connection: Connection,
    record: TaskRecord,
    change: Change,
    by: ChangeOrigin,
    now: datetime,
) -> TaskRecord:
    """Write the change, or nothing when it is empty; return the task as it is now."""
    old, kind, had = record.run, change.kind or by.kind, relink.held(connection, record, change)
    run, next_run = _runs_of(connection, record, change, kind, now)
    alone = not (change.next_run or change.restored or touches_side_runs(change)) and change.task == record.task
    if alone and relink.is_empty(record, change, run, had):
        return record
    check_legal(old, run, next_run, as_side_run=change.as_side_run)
    # Write: the current run gives up its place before the next one is inserted, as an index allows one current run.
    relinked = relink.write(connection, record, change, had, now)
    questions.check_change(connection, record, change, run, kind)
    run_waits.check_change(connection, old, run, now)
    task = replace(change.task, revision=record.task.revision + 1, updated_at=now)
    run = with_overtake_time(task, replace(run, current=not (next_run or change.restored)))
    _write_task(connection, record.task, task)
    write_run(connection, old, run)
    stored = StoredChange(record, task, run, _current(connection, task, next_run, change.restored) or run, kind)
    moves = _move_side_runs(connection, stored, change.cancelled_side_runs)
    # Log: the events of the task first, then those of its side runs.
    by = replace(by, kind=kind, reason=by.reason or same_time_note(change) or None)
    is_noted = run != old or next_run or relinked or not touches_side_runs(change) or kind is EventKind.UNDONE
    entries = entries_of(record, task, run, next_run and stored.current, by=by, at=now) if is_noted else []
    begun = _begin_side_runs(connection, stored, change, by)
    entries = [*relink.with_links(entries, relinked), *begun]
    ready_runs.follow_pause(connection, record, task)
    event_log.append(connection, entries + side_runs.entries(moves, task, by))
    # Follow up: runs that go on by the change log events of their own, which stand after those of the change.
    _follow_waits(connection, stored, next_run)
    side_generations.follow(connection, [move.new.id for move in moves if move.new.ended_at], now)
    if kind is EventKind.CANCEL_UNDONE:
        side_generations.settle(connection, [task.id], now)
    moved = relink.settle(connection, relinked, task.id, now) if relinked else links.follow_change(connection, stored)
    dead_letters.follow_change(connection, record, stored.current, change, now)
    return _as_it_is(connection, stored, moved=moved, has_side_runs=bool(record.side_runs or begun))


def _move_side_runs(connection: Connection, stored: StoredChange, cancelled: Sequence[Run]) -> list[RunMove]:
    """Write the side runs that a change moves or cancels; cancelled ones wait for nothing any more."""
    moves = side_runs.follow(connection, stored) + side_runs.cancel(connection, cancelled, stored.at)
    ended = [move for move in moves if move.new.ended_at]
    _end_waits(connection, [move.old for move in ended], stored.at)
    note_ends(connection, [EndedRun.of(stored.task, move.old, move.new.state) for move in ended])
    return moves


def _end_waits(connection: Connection, before: Sequence[Run], now: datetime, why: str | None = None) -> None:
    """Withdraw the open questions of ended runs, and close their waits for events."""
    questions.withdraw(connection, [(run.id, run.state) for run in before], now, why)
    ended_waits.end(connection, [(run.id, run.task_id, run.state) for run in before], now)


def _as_it_is(connection: Connection, stored: StoredChange, *, moved: bool, has_side_runs: bool) -> TaskRecord:
    """Return the task after its change; a waiting run may have `moved`: what it waits for let it go, or ended it."""
    record, task, run, current, _ = stored
    if moved and current.state is State.WAITING:
        return read.record(connection, task.tenant, task.id)
    ended = run if read.ran(run) else record.last_run
    side = read.side_runs_of(connection, [task]).get(task.id, ()) if has_side_runs else ()
    return TaskRecord(task, current, ended, record.deliveries, side)


def _runs_of(
    connection: Connection, record: TaskRecord, change: Change, kind: EventKind, now: datetime
) -> tuple[Run, Run | None]:
    """Return the run and the next one as they are stored; what is taken back waits again for other tasks."""
    old, both = record.run, (record.task, change.task)
    run, next_run = held(change.run, now), held(change.next_run, now) if change.next_run else None
    if run.scheduled_for != old.scheduled_for:
        [run] = places.placed(connection, [run])
    if next_run:
        next_run = questions.held_back(connection, change.task, old, next_run, now)
        next_run = links.held_back(connection, old, next_run, kind)
        next_run = without_early_deadline(change.task, due_again(*both, old, next_run, now))
    return without_early_deadline(change.task, due_again(*both, old, run, now)), next_run


def _follow_waits(connection: Connection, stored: StoredChange, next_run: Run | None) -> None:
    """Withdraw the question of a run that a change ends, and ask for the one in its place; so with its event."""
    old, run, task, now = stored.old_run, stored.run, stored.task, stored.at
    if stored.ends_run or stored.stops_waiting:
        _end_waits(connection, [old], now, questions.MOVED if run.state is State.SCHEDULED else None)
    if stored.ends_run:
        note_ends(connection, [EndedRun.of(stored.old_task, old, run.state)])
    own_waits.follow_change(connection, stored)
    if before_run(stored.old_task).asks and not before_run(task).asks:
        occurrences.forget(connection, run, now)
    if next_run:
        questions.carry_over(connection, [(task, old, next_run)], now)
    elif stored.kind is EventKind.UNDONE:
        occurrences.taken_back(connection, stored)


def _current(connection: Connection, task: Task, next_run: Run | None, restored: Run | None) -> Run | None:
    """Store the run that takes over as the current one, and return it; None where the current run stays."""
    if restored:
        connection.execute(update(runs).where(runs.c.id == restored.id).values(current=True))
        return replace(restored, current=True)
    if next_run:
        next_run = with_overtake_time(task, places.placed(connection, [next_run])[0])
        connection.execute(insert(runs), [new_run_values(task, next_run)])
    return next_run


def _begin_side_runs(
    connection: Connection, stored: StoredChange, change: Change, by: ChangeOrigin
) -> list[event_log.EventValues]:
    """Store the runs that the change begins in addition to the current one, and return their events."""
    is_back = stored.kind is EventKind.CANCEL_UNDONE
    again = side_runs.to_revive(connection, stored.old_run, stored.at) if is_back else []
    entries = []
    for run in [*(each.new for each in again), *filter(None, [change.extra_run]), *change.revived]:
        [extra] = places.placed(connection, [replace(run, current=False)])
        connection.execute(insert(runs), [new_run_values(stored.task, extra)])
        entries.append(_beginning(extra, stored.task, by, stored.at))
    questions.carry_over(connection, [(stored.task, *each) for each in again], stored.at)
    own_waits.carry_over(connection, again)
    return entries


def touches_side_runs(change: Change) -> bool:
    """Whether the change affects side runs."""
    return bool(change.extra_run or change.cancelled_side_runs or change.revived)


def check_legal(old: Run, run: Run, next_run: Run | None, *, as_side_run: bool = False) -> None:
    if run.state != old.state:
        check_move(old.state, run.state)
    elif old.ended_at and run != old:
        raise IllegalMove(f"run {old.id} has ended ({old.state}) and stays as it ended")
    if next_run is None:
        return
    check_move(None, next_run.state)
    if not run.ended_at and not as_side_run:
        raise IllegalMove(f"run {run.id} is {run.state}; another can only take its place when it has ended")


def _write_task(connection: Connection, old: Task, new: Task) -> None:
    values = changed_fields(old, new)
    if "title" in values:
        values["title_folded"] = folded(new.title)
        alike = twin_hash(new.tenant, new.owner, new.title)
        unended = (runs.c.task_id == old.id, runs.c.ended_at.is_(None))
        connection.execute(update(runs).where(*unended), {"twin_hash": alike})
    statement = task_update(tuple(sorted(values)))
    _exactly_one(connection.execute(statement, task_row(old, values)).rowcount, old.id)
    if "labels" in values:
        connection.execute(delete(labels).where(labels.c.tenant == old.tenant, labels.c.task_id == old.id))
        add.insert_labels(connection, new)


def write_run(connection: Connection, old: Run, new: Run) -> None:
    if values := changed_fields(old, new):
        values["listed_at"] = listed_at(new)
        statement = run_update(tuple(sorted(values)))
        _exactly_one(connection.execute(statement, run_row(old, values)).rowcount, old.id)


def _exactly_one(count: int, what: str) -> None:
    if count != 1:
        raise IllegalMove(f"{what} was changed by another transaction between reading and writing")


def changed_fields(old: Task | Run, new: Task | Run) -> Fields:
    return {f.name: getattr(new, f.name) for f in fields(old) if getattr(new, f.name) != getattr(old, f.name)}


def entries_of(
    record: TaskRecord, task: Task, run: Run, next_run: Run | None, *, by: ChangeOrigin, at: datetime
) -> list[event_log.EventValues]:
    """Return one event, or two when one run ends and the next begins, since each move has its own."""
    old = record.run
    move = (old.state, run.state) if run.state != old.state else None
    if next_run is None:
        return [_entry(record, task, run, move, by=by, at=at)]
    begun: tuple[None, State] = (None, next_run.state)
    if move is None and run.ended_at:
        entry = _entry(record, task, next_run, begun, by=by, at=at)
        return [{**entry, "before": {**(entry["before"] or {}), FOLLOWED: old.id}}]
    first = [_entry(record, task, run, move, by=by, at=at)] if move else []
    second = _entry(record, task, next_run, begun, by=replace(by, kind=EventKind.NEXT_OCCURRENCE), at=at)
    after = {"scheduled_for": in_json(next_run.scheduled_for), "number": next_run.number}
    return [*first, {**second, "before": None, "after": after}]


def _beginning(run: Run, task: Task, by: ChangeOrigin, at: datetime) -> event_log.EventValues:
    check_move(None, run.state)
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        at,
        kind=by.kind,
        actor=by.actor,
        reason=by.reason,
        via=by.via,
        move=(None, run.state),
        after={"scheduled_for": in_json(run.scheduled_for)},
        revision=task.revision,
    )


def _entry(
    record: TaskRecord,
    task: Task,
    run: Run,
    move: tuple[State | None, State] | None,
    *,
    by: ChangeOrigin,
    at: datetime,
) -> event_log.EventValues:
    before, after = _difference(record, task, run)
    return event_log.entry(
        task.tenant,
        task.id,
        run.id,
        at,
        kind=by.kind,
        actor=by.actor,
        reason=by.reason,
        via=by.via,
        move=move,
        attempt=run.attempt or None,
        before=before,
        after=after,
        revision=task.revision,
    )


def _difference(record: TaskRecord, task: Task, run: Run) -> tuple[dict[str, Json], dict[str, Json]]:
    before, after = dict[str, Json](), dict[str, Json]()
    for old, new in ((record.task, task), (record.run, run)):
        for name, value in changed_fields(old, new).items():
            if name not in _UNLOGGED_FIELDS:
                before[name], after[name] = _logged_value(getattr(old, name)), _logged_value(value)
    if task.deadline != record.task.deadline:  # the run has a deadline too
        before[TASK_DEADLINE], after[TASK_DEADLINE] = record.task.deadline, task.deadline
    return before, after


def _logged_value(value: Any) -> Json:
    if isinstance(value, RepeatPolicy):
        return repeat_policy_to_json(value)
    return policy_to_json(value) if isinstance(value, RetryPolicy) else in_json(value)

"""Changes of tasks and their current runs alone, which need no other row: all of a kind are written by one statement.

A change with a question, an awaited event or new links is no plain one; `statements/change.py` writes it. Neither is
one with another run, unless it takes back the cancel of a task that stands alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.calls.bulk_change import BatchWrite
from duetime.scheduler.chain.link_change import RelinkedChange
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change, ChangeOrigin
from duetime.scheduler.rules.series.moved_occurrence import same_time_note
from duetime.scheduler.rules.series.occurrence_approval import without_early_deadline
from duetime.scheduler.rules.series.occurrence_wait import due_again
from duetime.scheduler.rules.series.overtake import with_overtake_time
from duetime.scheduler.run_records import EndedRun
from duetime.scheduler.store.schema.rows import held, listed_at, new_run_values
from duetime.scheduler.store.sql.commit_notes import note_ends
from duetime.scheduler.store.sql.locks import exactly
from duetime.scheduler.store.sql.row_updates import run_batch, run_row, task_batch, task_row
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import dependants, event_log, read, ready_runs
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection

_STATES = frozenset({State.SCHEDULED, State.READY, State.RUNNING})
"""States in which a run waits neither for an answer nor for an event."""


class PlainChange(NamedTuple):
    """A change of a task as it is."""

    record: TaskRecord
    change: Change


class _Changed(NamedTuple):
    record: TaskRecord
    change: Change
    task: Task
    run: Run
    next_run: Run | None

    @property
    def is_empty(self) -> bool:
        return self.change.task == self.record.task and self.run == self.record.run and self.next_run is None

    @property
    def current(self) -> Run:
        return self.next_run or self.run


def is_plain(record: TaskRecord, change: Change, lone_cancels: Collection[str] = ()) -> bool:
    """Whether a change touches a task and its runs alone, and only what has no rows of its own.

    `lone_cancels` are cancelled tasks with which nothing else ended.
    """
    is_lone = change.kind is EventKind.CANCEL_UNDONE and record.task.id in lone_cancels
    if record.damage or record.side_runs or change.run.state is State.WAITING:
        return False
    if (record.run.state not in _STATES or change.next_run) and not is_lone:
        return False
    if change.restored or isinstance(change, RelinkedChange) or changing.touches_side_runs(change):
        return False
    old, new = record.task, change.task
    return old.asks is new.asks is None and (old.title, old.labels, old.payload) == (new.title, new.labels, new.payload)


def write(
    connection: Connection, plain: Sequence[PlainChange], kind: EventKind, write: BatchWrite, now: datetime
) -> dict[str, TaskRecord]:
    """Write these changes, each of another task; return the tasks as they are now. An empty change writes nothing."""
    every = _changed(connection, plain, now)
    changed = [each for each in every if not each.is_empty]
    for each in changed:
        changing.check_legal(each.record.run, each.run, each.next_run)
    changed = [_as_stored(each, now) for each in changed]
    _write_tasks(connection, [(each.record.task, each.task) for each in changed])
    _write_runs(connection, [(each.record.run, each.run) for each in changed])
    places.ADD_RUNS.run(connection, [new_run_values(each.task, each.next_run) for each in changed if each.next_run])
    ready_runs.follow_pauses(connection, ((each.record.task, each.task) for each in changed))
    event_log.append(connection, [entry for each in changed for entry in _entries(each, kind, write, now)])
    ended = [each for each in changed if each.run.ended_at and not each.record.run.ended_at]
    note_ends(connection, [EndedRun.of(each.record.task, each.record.run, each.run.state) for each in ended])
    if ended:
        dependants.follow(connection, {each.run.task_id: each.run.state for each in ended}, now)
    return {each.record.task.id: each.record for each in every} | {each.task.id: _as_it_is(each) for each in changed}


def _changed(connection: Connection, plain: Sequence[PlainChange], now: datetime) -> list[_Changed]:
    """Return the changes with their runs as `statements/change.py` stores them, those that move in free places."""
    asked = [held(change.run, now) for _, change in plain]
    moves = [
        run for (record, _), run in zip(plain, asked, strict=True) if run.scheduled_for != record.run.scheduled_for
    ]
    begun = [
        _due(record, change, held(change.next_run, now), now) if change.next_run else None for record, change in plain
    ]
    placed = {run.id: run for run in places.placed(connection, [*moves, *filter(None, begun)])}
    return [
        _Changed(
            record,
            change,
            change.task,
            _due(record, change, placed.get(run.id, run), now),
            placed[begins.id] if begins else None,
        )
        for (record, change), run, begins in zip(plain, asked, begun, strict=True)
    ]


def _due(record: TaskRecord, change: Change, run: Run, now: datetime) -> Run:
    return without_early_deadline(change.task, due_again(record.task, change.task, record.run, run, now))


def _as_stored(each: _Changed, now: datetime) -> _Changed:
    task = replace(each.task, revision=each.record.task.revision + 1, updated_at=now)
    next_run = with_overtake_time(task, each.next_run) if each.next_run else None
    run = with_overtake_time(task, replace(each.run, current=next_run is None))
    return each._replace(task=task, run=run, next_run=next_run)


def _entries(each: _Changed, kind: EventKind, write: BatchWrite, now: datetime) -> list[event_log.EventValues]:
    reason = write.reason or same_time_note(each.change) or None
    return changing.entries_of(
        each.record,
        each.task,
        each.run,
        each.next_run,
        by=ChangeOrigin(kind=each.change.kind or kind, reason=reason, **write.acting),
        at=now,
    )


def _as_it_is(each: _Changed) -> TaskRecord:
    ended = each.run if read.ran(each.run) else each.record.last_run
    return replace(each.record, task=each.task, run=each.current, last_run=ended)


def _write_tasks(connection: Connection, pairs: Iterable[tuple[Task, Task]]) -> None:
    changed = [(old, changing.changed_fields(old, new)) for old, new in pairs]
    for names, some in _by_columns((values, task_row(old, values)) for old, values in changed).items():
        exactly(len(some), task_batch(names).run(connection, some))


def _write_runs(connection: Connection, pairs: Iterable[tuple[Run, Run]]) -> None:
    changed = [
        (old, {**changing.changed_fields(old, new), "listed_at": listed_at(new)}) for old, new in pairs if new != old
    ]
    for names, some in _by_columns((values, run_row(old, values)) for old, values in changed).items():
        exactly(len(some), run_batch(names).run(connection, some))


def _by_columns(
    rows: Iterable[tuple[Mapping[str, Any], dict[str, Any]]],
) -> dict[tuple[str, ...], list[dict[str, Any]]]:
    """Return rows by the columns of their new values, which each comes with."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for values, row in rows:
        found.setdefault(tuple(sorted(values)), []).append(row)
    return found

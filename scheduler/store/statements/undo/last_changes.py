"""The change of a task that an undo takes back, read from its events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from itertools import groupby
from typing import Any, Final, NamedTuple

from duetime.scheduler.events import UNDOABLE_KINDS, Event, EventKind
from duetime.scheduler.records import LastChange
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import EVENT_FIELDS, RUN_FIELDS, from_json
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.event_log import FOLLOWED, LINKS, TASK_DEADLINE, TIMES_MEMBER
from duetime.scheduler.task import Run, State, Task
from sqlalchemy import Connection, bindparam, select, tuple_

MAX_REVISIONS_READ: Final = 40
"""Revisions of a task that are read back, of which each undo and what it took back are one."""

_RUNS = select(*RUN_FIELDS).where(runs.c.id.in_(bindparam("run_ids", expanding=True)))
_MADE = tuple_(events.c.task_id, events.c.revision)
_UNDOS = select(events.c.task_id, events.c.run_id, events.c.before).where(
    events.c.kind.in_((EventKind.UNDONE, EventKind.CANCEL_UNDONE))
)
_BEGAN = (
    select(events.c.id)
    .where(events.c.task_id == bindparam("of_task"), events.c.run_id == bindparam("of_run"))
    .where(events.c.revision == bindparam("before"), events.c.kind == EventKind.NEXT_OCCURRENCE)
    .limit(1)
)


def began_by_last_change(connection: Connection, task: Task, run: Run) -> bool:
    """Whether a run took the place of another one by the change that stood before this revision of its task."""
    stood = _standing(connection, [(task.id, task.revision - 1)]).revisions.get(task.id, task.revision - 1)
    given = {"of_task": task.id, "of_run": run.id, "before": stood}
    return connection.execute(_BEGAN, given).first() is not None


def last_changes(connection: Connection, of: Iterable[Task]) -> dict[str, LastChange]:
    """Return the last changes by actors that stand, by task: those after them were taken back. A new task has none."""
    revisions, successors = _standing(connection, [(task.id, task.revision) for task in of if task.revision > 1])
    if not revisions:
        return {}
    made = (tuple_(events.c.task_id, events.c.revision).in_(list(revisions.items())), events.c.kind.in_(UNDOABLE_KINDS))
    found = event_log.events_of(connection, select(*EVENT_FIELDS).where(*made).order_by(events.c.task_id, events.c.seq))
    ids = [each for event in found for each in (event.run_id, (event.before or {}).get(FOLLOWED)) if each]
    touched = {run.id: run for run, _ in unreadable.values(connection, _RUNS, Run, RUN_FIELDS, {"run_ids": ids})}
    by_task = groupby(found, key=lambda event: event.task_id)
    changes = {task_id: _change_of(list(some), touched, revisions[task_id]) for task_id, some in by_task}
    return {task_id: _followed(change, successors) for task_id, change in changes.items()}


def _followed(change: LastChange, successors: Mapping[str, str]) -> LastChange:
    """Return the change as one of the run that came back after a cancel of its own run."""
    current = change.current
    while current in successors:
        current = successors[current]
    return change if current == change.current else replace(change, current=current)


class _Standing(NamedTuple):
    """The `revisions` of changes that stand, by task; `successors` of runs whose cancel was taken back since."""

    revisions: dict[str, int]
    successors: dict[str, str]


def _standing(connection: Connection, revisions: Sequence[tuple[str, int]]) -> _Standing:
    """Return which change of each of these tasks stands at a revision, where one does: undos leave that before them.

    Makes one query where none of the revisions was made by an undo.
    """
    standing, left = dict(revisions), {task_id: (revision, 0) for task_id, revision in revisions}
    successors = dict[str, str]()
    for _ in range(MAX_REVISIONS_READ):
        given = [(task_id, revision) for task_id, (revision, _) in left.items()]
        found = connection.execute(_UNDOS.where(_MADE.in_(given))).all() if given else []
        undone = {row.task_id for row in found}
        successors |= {row.before[FOLLOWED]: row.run_id for row in found if FOLLOWED in (row.before or {})}
        left = {
            task_id: (revision - 1, taken_back + 1 if task_id in undone else taken_back - 1)
            for task_id, (revision, taken_back) in left.items()
            if revision > 1 and (task_id in undone or taken_back)
        }
        standing |= {task_id: revision for task_id, (revision, taken_back) in left.items() if not taken_back}
    return _Standing(standing, successors)


def _change_of(found: Sequence[Event], touched: Mapping[str, Run], revision: int) -> LastChange:
    first, after = found[0].run_id or "", found[0].after or {}
    before: Mapping[str, Any] = found[0].before or {}
    following = next((event.run_id for event in found if event.kind is EventKind.NEXT_OCCURRENCE), None)
    of_side_runs = [event for event in found if event.before is None and event.kind is not EventKind.NEXT_OCCURRENCE]
    current = following or first
    links: Mapping[str, Any] | None = before.get(LINKS)
    times = (links or {}).get(TIMES_MEMBER, {})
    return LastChange(
        found[0].at,
        task=_fields_of(Task, before, after),
        run={**_fields_of(Run, times, after), **_fields_of(Run, before, after)},
        current=current,
        replaced_run=touched.get(first if following else before.get(FOLLOWED, "")),
        began=tuple(event.run_id or "" for event in of_side_runs if event.from_state is None),
        cancelled=tuple(touched[event.run_id or ""] for event in of_side_runs if event.to_state is State.CANCELLED),
        skipped=bool(following and touched[first].state is State.SKIPPED),
        links=links,
        revision=revision,
        attempts=next((event.attempt or 0 for event in found if event.run_id == current), 0),
    )


def _fields_of(kind: type[Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a task or of a run among the values of an event; both have a deadline."""
    values = {name: value for name, value in before.items() if name in {field.name for field in fields(kind)}}
    if kind is Task:
        values.pop("deadline", None)
        values |= {"deadline": before[TASK_DEADLINE]} if TASK_DEADLINE in before else {}
    elif TASK_DEADLINE in before and not _is_of_run(before, after):
        values.pop("deadline", None)
    return {name: from_json(kind, name, value) for name, value in values.items()}


def _is_of_run(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether the deadline in an event is that of the run, which is an instant; that of its task is in words.

    Words may be an instant, too; but what changes the deadline of a run changes when it is too late to start.
    """
    return "drop_at" in before or any(each.get("deadline") != each.get(TASK_DEADLINE) for each in (before, after))

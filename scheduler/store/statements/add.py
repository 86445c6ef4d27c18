"""Adding tasks: the task, its first run, its labels, its key and its first event, in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from duetime.scheduler.chain.dependency import DependentTask, upstreams_within
from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.records import Added, NewTask
from duetime.scheduler.rules.states import check_move
from duetime.scheduler.store.schema.rows import (
    LABEL_VALUES,
    NEW_TASK_VALUES,
    in_json,
    label_rows,
    new_run_values,
    new_task_values,
)
from duetime.scheduler.store.schema.tables.tasks import labels, tasks
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.statements import event_log, idempotency, links, read, twins
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.store.statements.idempotency import Name, name_of
from duetime.scheduler.task import State, Task
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, bindparam, insert, select

_TASKS = Batch(insert(tasks), NEW_TASK_VALUES)
_LABELS = Batch(insert(labels), LABEL_VALUES)
_THESE = select(tasks.c.id).where(tasks.c.id.in_(bindparam("task_ids", expanding=True)))


class StoreNew(Protocol):
    """Stores what is new and returns the answers by the ids asked for: the form of one kind of database."""

    def __call__(
        self,
        connection: Connection,
        items: Sequence[NewTask],
        entries: Sequence[event_log.EventValues],
        *,
        now: datetime,
        twins: bool,
    ) -> dict[str, Added]: ...


def add(
    connection: Connection,
    items: Sequence[NewTask],
    now: datetime,
    *,
    store_new: StoreNew,
    twins: bool = False,
    may_be_stored: bool = False,
) -> list[Added]:
    """Store the new tasks; for a known key, return the stored task.

    `may_be_stored`: an earlier try may have stored them.
    """
    firsts = _firsts(items)
    new = [item for item in items if item.key is None or firsts[name_of(item)] is item]
    entries = [entry for item in new for entry in _events(item, now)]
    there = _there(connection, new) if may_be_stored else {}
    left = [item for item in new if item.task.id not in there]
    stored = there | store_new(connection, left, entries, now=now, twins=twins)
    dependent = [each for each in left if isinstance(each, DependentTask) and stored[each.task.id].created]
    if dependent:
        questions.ask(connection, [(each.task, each.run, each.approval) for each in dependent if each.approval])
        held = links.add(connection, [each for each in left if stored[each.task.id].created], now)
        stored |= {task_id: replace(stored[task_id], record=record) for task_id, record in held.items()}
    return [_answer(item, firsts, stored) for item in items]


def _there(connection: Connection, items: Sequence[NewTask]) -> dict[str, Added]:
    found = connection.execute(_THESE, {"task_ids": [item.task.id for item in items]}).scalars().all()
    return {
        item.task.id: Added(TaskRecord(item.task, item.run), created=True) for item in items if item.task.id in found
    }


def _firsts(items: Sequence[NewTask]) -> dict[Name, NewTask]:
    """Return the first item under each key; the later items of a key must have the same content."""
    firsts: dict[Name, NewTask] = {}
    for item in items:
        if item.key:
            first = firsts.setdefault(name_of(item), item)
            if first is not item:
                assert first.key is not None
                idempotency.check_same(item.key, first.task.id, idempotency.reduced(first.key.fingerprint))
    return firsts


def _answer(item: NewTask, firsts: Mapping[Name, NewTask], stored: Mapping[str, Added]) -> Added:
    first = firsts[name_of(item)] if item.key else item
    added = stored[first.task.id]
    return added if first is item else Added(added.record, created=False)


def store_new(
    connection: Connection,
    items: Sequence[NewTask],
    entries: Sequence[event_log.EventValues],
    *,
    now: datetime,
    twins: bool,
) -> dict[str, Added]:
    """Store new tasks under SQLite's write lock; return the results by the ids of the items."""
    owners = idempotency.claim(connection, items, now)
    existing = read.records(connection, set(owners.values())) if owners else {}
    keyed = [item for item in items if item.key] if owners else []
    known = {item.task.id: existing[owners[name_of(item)]] for item in keyed if name_of(item) in owners}
    fresh = [item for item in items if item.task.id not in known]
    alike = [_twin(connection, item) if twins else None for item in fresh]
    _insert(connection, fresh, [entry for entry in entries if entry["task_id"] not in known])
    answers = {task_id: Added(record, created=False) for task_id, record in known.items()}
    return answers | {
        item.task.id: Added(TaskRecord(item.task, item.run), created=True, twin=twin)
        for item, twin in zip(fresh, alike, strict=True)
    }


def _twin(connection: Connection, item: NewTask) -> str | None:
    task = item.task
    return twins.similar(connection, task.tenant, task.owner, task.title, item.run.scheduled_for)


def _insert(connection: Connection, items: Sequence[NewTask], entries: Sequence[event_log.EventValues]) -> None:
    followed = upstreams_within(items)
    _TASKS.run(connection, [new_task_values(item.task, followed) for item in items])
    places.ADD_RUNS.run(connection, [new_run_values(item.task, item.run) for item in items])
    _LABELS.run(connection, label_rows(item.task for item in items))
    event_log.append(connection, entries)


def insert_labels(connection: Connection, task: Task) -> None:
    _LABELS.run(connection, label_rows([task]))


def _events(item: NewTask, now: datetime) -> list[event_log.EventValues]:
    """Return the events of a new task; a run due at once is scheduled and made ready in one step."""
    task, run = item.task, item.run
    if run.state is not State.READY:
        return [_created(item, now, run.state)]
    check_move(State.SCHEDULED, run.state)
    ready = event_log.entry(
        task.tenant,
        task.id,
        run.id,
        now,
        kind=EventKind.READY,
        actor=DUETIME_ACTOR,
        move=(State.SCHEDULED, run.state),
    )
    return [_created(item, now, State.SCHEDULED), ready]


def _created(item: NewTask, now: datetime, state: State) -> event_log.EventValues:
    task, run = item.task, item.run
    check_move(None, state)
    after = {"title": task.title, "action": task.action, "scheduled_for": in_json(run.scheduled_for)}
    if task.repeat:
        after["repeat"] = task.repeat
    return event_log.entry(
        task.tenant,
        task.id,
        run.id,
        now,
        kind=EventKind.CREATED,
        actor=item.actor,
        via=item.via,
        move=(None, state),
        after=after,
        revision=task.revision,
    )

"""Adding tasks: the task, its first run, its labels, its key and its first event, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.states import check_move
from duetime.scheduler.store import journal, keys, reading
from duetime.scheduler.store.batches import Batch
from duetime.scheduler.store.models import labels, runs, tasks
from duetime.scheduler.store.rows import RUN, TASK, in_json, run_values, task_values
from duetime.scheduler.store.values import Added, NewTask
from duetime.scheduler.task import TaskRecord
from sqlalchemy import Connection, insert

_TASKS = Batch(insert(tasks), [*(column.name for column in TASK), "title_folded"])
_RUNS = Batch(insert(runs), [*(column.name for column in RUN), "listed_at"])
_LABELS = Batch(insert(labels), ("tenant", "label", "task_id"))


def add(connection: Connection, items: Sequence[NewTask], now: datetime) -> list[Added]:
    """Store the tasks that are new; those whose key is known come back as they are stored."""
    keys.lock(connection, items)
    owners = keys.known(connection, items, now)
    existing = reading.records(connection, set(owners.values())) if owners else {}
    fresh: dict[str, NewTask] = {}
    for item in items:
        if item.key is None:
            fresh[item.task.id] = item
        else:
            _claim_key(item, owners, fresh)
    insert_all(connection, list(fresh.values()), now)
    return [_answer(item, owners, existing, fresh) for item in items]


def _claim_key(item: NewTask, owners: dict[tuple[str, str], str], fresh: dict[str, NewTask]) -> None:
    assert item.key is not None
    name = (item.task.tenant, item.key.key)
    owner = owners.setdefault(name, item.task.id)
    twin = fresh.get(owner)
    if owner == item.task.id:
        fresh[owner] = item
    elif twin is not None and twin.key is not None:  # the same key twice in this call
        keys.check_same(item.key, owner, keys.reduced(twin.key.fingerprint))


def _answer(
    item: NewTask,
    owners: dict[tuple[str, str], str],
    existing: dict[str, TaskRecord],
    fresh: dict[str, NewTask],
) -> Added:
    owner = owners[item.task.tenant, item.key.key] if item.key else item.task.id
    if owner in existing:
        return Added(existing[owner], created=False)
    stored = fresh[owner]
    return Added(TaskRecord(stored.task, stored.run), created=owner == item.task.id)


def insert_all(connection: Connection, items: Sequence[NewTask], now: datetime) -> None:
    if not items:
        return
    created = [_created(item, now) for item in items]
    _TASKS.run(connection, [task_values(item.task) for item in items])
    _RUNS.run(connection, [run_values(item.run) for item in items])
    insert_labels(connection, [(item.task.tenant, item.task.id, item.task.labels) for item in items])
    keys.store(connection, items)
    journal.append(connection, created)


def insert_labels(connection: Connection, labelled: Sequence[tuple[str, str, tuple[str, ...]]]) -> None:
    rows = [
        {"tenant": tenant, "label": label, "task_id": task_id}
        for tenant, task_id, names in labelled
        for label in dict.fromkeys(names)
    ]
    _LABELS.run(connection, rows)


def _created(item: NewTask, now: datetime) -> journal.Entry:
    task, run = item.task, item.run
    check_move(None, run.state)
    after = {"title": task.title, "action": task.action, "scheduled_for": in_json(run.scheduled_for)}
    if task.repeat:
        after["repeat"] = task.repeat
    return journal.entry(
        task.tenant,
        task.id,
        run.id,
        now,
        kind=EventKind.CREATED,
        actor=item.actor,
        move=(None, run.state),
        after=after,
        revision=task.revision,
    )

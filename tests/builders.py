"""Tasks, runs and stores as the store's tests make them: an injected clock, and defaults for everything else."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from duetime.scheduler import ids
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.run_records import Claim, LogChunk, Settlement, Start
from duetime.scheduler.store import Store
from duetime.scheduler.store.lists.task_list import Counts
from duetime.scheduler.store.schema.rows import RUN_FIELDS
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import DeadlineType, Delivery, InboxMessage, RetryPolicy, Run, State, Task
from duetime.scheduler.views import TaskFilter, TaskRecord
from sqlalchemy import select

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
TENANT = "acme"

T = TypeVar("T")


@dataclass
class Clock:
    """A clock that only moves when told to."""

    at: datetime = field(default=NOON)

    def __call__(self) -> datetime:
        return self.at

    def forward(self, **parts: float) -> None:
        self.at += timedelta(**parts)


def some(values: Iterable[T]) -> list[T]:
    """Return the values, of which there are some: a check of each of none would pass."""
    found = list(values)
    assert found, "there is nothing to check"
    return found


def pool_act(actor: str) -> AuditEntry:
    """Return the audit entry of a change of a pool, as the store completes it."""
    return AuditEntry(TENANT, AuditKind.POOL_SET, actor)


def a_task(scheduled_for: datetime = NOON, **values: Any) -> tuple[Task, Run]:
    """Return a task of Alice's, and its first run."""
    task = Task(
        id=ids.new_task_id(),
        tenant=TENANT,
        owner="alice",
        title="Call John",
        action="reminder",
        payload={"message": "Call John", "nested": {"numbers": [1, 2.5, None, True]}},
        timezone="America/Edmonton",
        when="tomorrow 9am",
        repeat=None,
        anchor=scheduled_for,
        until=None,
        max_runs=None,
        paused=False,
        retry=RetryPolicy(max_attempts=4, backoff=timedelta(seconds=2)),
        deliver_to=("inbox", "desktop"),
        labels=("home", "phone"),
        revision=1,
        created_at=NOON,
        updated_at=NOON,
    )
    task = replace(task, **values)
    return task, a_run(task, scheduled_for)


def a_run(task: Task, scheduled_for: datetime, **values: Any) -> Run:
    run = Run(
        id=ids.new_id("r"),
        task_id=task.id,
        tenant=task.tenant,
        scheduled_for=scheduled_for,
        state=State.SCHEDULED,
        wake_at=scheduled_for,
    )
    return replace(run, **values)


def with_deadline(
    task: Task,
    run: Run,
    *,
    after: timedelta,
    takes: timedelta = timedelta(seconds=2),
    deadline_type: DeadlineType = DeadlineType.HARD,
    **values: Any,
) -> tuple[Task, Run]:
    """Return the task and its run with a deadline `after` the run is due; it takes two seconds."""
    deadline = run.scheduled_for + after
    changed = replace(task, deadline_after=after, deadline_type=deadline_type, **values)
    return changed, replace(run, deadline=deadline, drop_at=deadline - takes)


def added(store: Store, scheduled_for: datetime = NOON, **values: Any) -> TaskRecord:
    task, run = a_task(scheduled_for, **values)
    return store.tasks.add(task, run, actor="alice").record


def started(store: Store, scheduled_for: datetime = NOON, *, worker: str = "w1", **values: Any) -> Claim:
    """Return the claim of a new task's run that was due and has been started."""
    record = added(store, scheduled_for, **values)
    return restarted(store, record, worker=worker)


def restarted(store: Store, record: TaskRecord, *, worker: str = "w1", epoch: int | None = None) -> Claim:
    store.claims.make_ready(limit=1_000)
    run = store.tasks.get(record.task.tenant, record.task.id).run
    [claim] = store.claims.start([Start(run.id)], worker=worker, epoch=epoch, lease=LEASE)
    return claim


def runs_of(store: Store, task_id: str) -> list[Run]:
    """Return all runs of a task, the latest generation first."""
    statement = select(*RUN_FIELDS).where(runs.c.task_id == task_id).order_by(runs.c.generation.desc())
    return store._database.read(lambda connection: [Run(*row) for row in connection.execute(statement)])


_KINDS = {
    State.SUCCEEDED: (EventKind.SUCCEEDED, "done"),
    State.FAILED: (EventKind.FAILED, "failed"),
    State.CANCELLED: (EventKind.CANCELLED, "cancelled"),
    State.EXPIRED: (EventKind.ENDED, "failed"),
    State.SUSPENDED: (EventKind.SUSPENDED, "wait"),
    State.RETRYING: (EventKind.RETRYING, "retry"),
}


def settlement(claim: Claim, to: State = State.SUCCEEDED, **values: Any) -> Settlement:
    kind, outcome = _KINDS[to]
    run, task = claim.run, claim.task
    return replace(Settlement(run.id, run.attempt, task.revision, to, kind, outcome, claim=claim), **values)


def log_chunk(claim: Claim, first: int, *said: str, cut: int = 0, last: bool = False) -> LogChunk:
    """Return lines of an attempt's log, as they are stored."""
    text = "\n".join(json.dumps([int(NOON.timestamp() * 1000), "info", "shop", line]) for line in said)
    size = len(text.encode())
    return LogChunk(claim.run.id, claim.run.attempt, first, len(said), cut, size, NOON, text, last)


def message(claim: Claim, **values: Any) -> InboxMessage:
    run, task = claim.run, claim.task
    made = InboxMessage(
        ids.new_id("m"), run.tenant, task.owner, task.id, run.id, task.title, "delivered", State.SUCCEEDED, NOON
    )
    return replace(made, **values)


def delivery(claim: Claim, channel: str = "desktop", **values: Any) -> Delivery:
    run = claim.run
    made = Delivery(ids.new_id("d"), run.tenant, run.task_id, run.id, channel, next_at=NOON)
    return replace(made, **values)


def to_cancelled(record: TaskRecord) -> Change:
    return Change(record.task, replace(record.run, state=State.CANCELLED))


def counted(store: Store, where: TaskFilter, most: int) -> Counts:
    """Return the counts of a list by state, up to `most` of each."""
    return store.tasks.page_and_counts(TENANT, where, limit=1, most=most)[2]


def cancelled(store: Store, record: TaskRecord, **values: Any) -> TaskRecord:
    task = record.task
    return store.tasks.change(
        task.tenant, task.id, actor="alice", kind=EventKind.CANCELLED, decide=to_cancelled, **values
    )

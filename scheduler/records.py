"""Records that go into the store and come out of it, in addition to the nouns of `scheduler.task`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from duetime.scheduler.events import EventKind
from duetime.scheduler.task import InboxMessage, Json, Run, Task, record
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskRecord

FINAL_CANCEL: Final = Translatable.of(NoteKind.FINAL_CANCEL, "its run has begun, so the cancel cannot be undone")


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's name for one request; `fingerprint` is the request's content, compared field by field.

    Without `expires_at` it ends 30 days after its task. A `derived` one, which no caller gave, ends when its caller
    changes the task, or cancels it. Without `expires_at` it is that of a template: it ends with a cancel, or a minute
    after its task.
    """

    key: str
    fingerprint: Mapping[str, Json]
    expires_at: datetime | None = None
    derived: bool = False


@record(frozen=True, slots=True)
class NewTask:
    """A task to be stored, with its first run."""

    task: Task
    run: Run
    actor: str
    key: IdempotencyKey | None = None
    via: str | None = None


@record(frozen=True, slots=True)
class Added:
    """The stored task; `created` is False when the key had already made it, and then nothing was written.

    `twin` is an open task that its owner had before with the same title (case apart) and time, if that was asked.
    """

    record: TaskRecord
    created: bool
    twin: str | None = None


@dataclass(frozen=True, slots=True)
class OutgoingMessage(InboxMessage):
    """A message on its way to a channel: with the origin of its task, and why its run is `unverified`."""

    origin: Mapping[str, str] = field(default_factory=dict)
    unverified: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """The new values of a task and its current run.

    `next_run` takes over as the current run (undo, skip, snooze of what fired); then `run` must have ended, unless it
    continues `as_side_run`. `extra_run` is stored in addition to the current one (run now, snooze of a recurring task),
    and so are those `revived`. `cancelled_side_runs` are cancelled. `restored` ended before, and is current
    again in place of `run`. `kind` replaces the event's kind. The `note` says what else follows, `was` when the run was
    expected that a pause holds until a time.
    """

    task: Task
    run: Run
    next_run: Run | None = None
    extra_run: Run | None = None
    cancelled_side_runs: tuple[Run, ...] = ()
    restored: Run | None = None
    revived: tuple[Run, ...] = ()
    as_side_run: bool = False
    kind: EventKind | None = None
    note: str | None = field(default=None, compare=False)
    was: datetime | None = field(default=None, compare=False)

    @property
    def coming(self) -> Run:
        """The run that takes over, or else the changed one."""
        return self.next_run or self.run

    def applied_to(self, record: TaskRecord) -> TaskRecord:
        """Return a record with the task and the coming run of the change."""
        return replace(record, task=self.task, run=self.coming)


@dataclass(frozen=True, slots=True)
class LastChange:
    """The last change of a task that stands, as its events have it: that of a `revision`, with none but undos after it.

    `task` and `run` are the fields that it changed, as they were. It made `current` the current run in place of
    `replaced_run`, where that is another one, which had ended before unless the change `skipped` it. `began` and
    `cancelled` are side runs. `links` is what the task waited for, where the change is of that. By then `current` had
    begun the `attempts`.
    """

    at: datetime
    task: Mapping[str, Any]
    run: Mapping[str, Any]
    current: str
    replaced_run: Run | None = None
    began: tuple[str, ...] = ()
    cancelled: tuple[Run, ...] = ()
    skipped: bool = False
    links: Mapping[str, Json] | None = None
    attempts: int = 0
    revision: int = 0


@dataclass(frozen=True, slots=True)
class ChangeOrigin:
    """The actor of a change, its kind, why it is made, and by which way the call came."""

    actor: str
    kind: EventKind
    reason: str | None = None
    via: str | None = None


@dataclass(frozen=True, slots=True)
class RunnerRecord:
    """The process that runs tasks now, and how the others reach it."""

    epoch: int
    pid: int
    endpoint: str
    token: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class StoredPool:
    """A pool as it was declared; `declared` is what configuration said last, None if it never named it.

    `limit_set_at` is when its kind, capacity or window was set; None where an older version wrote it.
    """

    name: str
    spec: Mapping[str, Json]
    declared: Mapping[str, Json] | None
    revision: int
    updated_at: datetime
    updated_by: str
    limit_set_at: datetime | None = None

    @property
    def limited_since(self) -> datetime:
        """When its kind, capacity or window was set, as far as is known: debt of a budget counts from then."""
        return self.limit_set_at or self.updated_at


@dataclass(frozen=True, slots=True)
class RunHolder:
    """The worker that started a running run, when it was last seen, and when its lease of the run ends.

    `seen_at` is None once the worker has no row any more.
    """

    worker: str
    seen_at: datetime | None
    lease_until: datetime | None


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A process that runs tasks, as it says of itself at `seen_at` by the store's clock.

    `running` counts its claimed runs, `lost_threads` those kept beyond a time limit; `drain` is asked by an operator.
    `key_ids` are those of the keys by which it reads secrets.
    """

    id: str
    host: str
    pid: int
    threads: int
    started_at: datetime
    state: str = "running"
    running: int = 0
    seen_at: datetime | None = None
    actions: tuple[str, ...] = ()
    lost_threads: int = 0
    drain: str | None = None
    key_ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ExternalWorker:
    """A caller that claims runs over MCP: the user of a key, and the name of its client where that gives one.

    `actions` are those that it asked for lately. It works for all tenants where it is `everywhere`, as operators may.
    """

    tenant: str
    user: str
    client: str | None
    everywhere: bool
    actions: tuple[str, ...]
    started_at: datetime
    seen_at: datetime

    @property
    def name(self) -> str:
        """Its name as the worker of runs."""
        return external_worker_name(self.tenant, self.user)

    def serves(self, action: str, tenant: str) -> bool:
        """Whether it asks for an action of a tenant."""
        return action in self.actions and (self.everywhere or tenant == self.tenant)


_EXTERNAL_PREFIX = "mcp:"
"""Begins the names of external workers: no process of this installation has one with a colon."""


def external_worker_name(tenant: str, user: str) -> str:
    """Return the name that a caller has as the worker of runs."""
    return f"{_EXTERNAL_PREFIX}{tenant}/{user}"


def is_external_worker(worker: object) -> bool:
    """Whether a worker of runs, as stored, is an external one: a damaged row has no text there."""
    return isinstance(worker, str) and worker.startswith(_EXTERNAL_PREFIX)

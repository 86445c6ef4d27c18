"""The tables of tasks. The newest migration and the models are equal; a test compares them on both databases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.store.schema.base import Base, Said, Serial, partial, table
from duetime.scheduler.store.schema.json_types import JsonValue
from duetime.scheduler.store.schema.types import ThisTransaction
from duetime.scheduler.task import DeadlineType, DeliveryState, Penalty, RetryPolicy, State, Tier
from sqlalchemy import BigInteger, CheckConstraint, Computed, ForeignKey, Index, false
from sqlalchemy.orm import Mapped, mapped_column

PHASE = "CASE state WHEN 'running' THEN 'ready' ELSE state END"


class TaskRow(Base):
    """A scheduled task. `title_folded` is the title for comparison without case."""

    __tablename__ = "tasks"
    __table_args__ = (Index("tasks_by_age", "tenant", "created_at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    owner: Mapped[Said]
    title: Mapped[Said]
    action: Mapped[str]
    payload: Mapped[Mapping[str, Any]]
    timezone: Mapped[str]
    when: Mapped[Said]
    repeat: Mapped[str | None]
    anchor: Mapped[datetime]
    until: Mapped[datetime | None]
    max_runs: Mapped[int | None]
    paused: Mapped[bool]
    retry: Mapped[RetryPolicy]
    deliver_to: Mapped[tuple[str, ...]]
    labels: Mapped[tuple[str, ...]]
    revision: Mapped[int]
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]
    title_folded: Mapped[Said]
    priority: Mapped[Tier] = mapped_column(server_default=Tier.NORMAL)
    deadline: Mapped[Said | None]
    deadline_after: Mapped[timedelta | None]
    deadline_type: Mapped[DeadlineType] = mapped_column(server_default=DeadlineType.SOFT)
    penalty: Mapped[Penalty] = mapped_column(server_default=Penalty.NONE)
    estimate: Mapped[timedelta | None]
    needs: Mapped[Mapping[str, int]] = mapped_column(server_default="{}")


class LabelRow(Base):
    """One label of one task, for filters; the task's own row keeps their order."""

    __tablename__ = "task_labels"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tenant: Mapped[str] = mapped_column(primary_key=True)
    label: Mapped[Said] = mapped_column(primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id"), primary_key=True)


class RunRow(Base):
    """One occurrence of a task. `listed_at` sorts lists: its next time while open, its end after that.

    `reserved` and `token` are the running attempt's reservations in the queue, for a rebuild of the queue. `paused`
    removes a run of a paused task from the indexes of the timers. `twin_hash` finds tasks of the same owner and title;
    ended runs of older versions have none. `last_failure` marks a run that failed or expired, until a later run of its
    task has ended. `phase` is the state, with running ones as ready: no index names a column
    that a start, a renewal or a progress report changes, so PostgreSQL writes these into the same page and no index.
    """

    __tablename__ = "runs"
    __table_args__ = (
        Index("runs_by_occurrence", "task_id", "scheduled_for", "generation", unique=True),
        Index("runs_by_phase", "tenant", "current", "phase"),
        partial("runs_current", "task_id", where="current", unique=True),
        Index("runs_by_twin", "twin_hash", "scheduled_for"),
        partial("runs_beside", "task_id", where="NOT current AND ended_at IS NULL"),
        partial("runs_wake", "wake_at", where="wake_at IS NOT NULL AND NOT paused"),
        partial("runs_drop", "drop_at", where="drop_at IS NOT NULL AND ended_at IS NULL AND NOT paused"),
        partial("runs_active", "id", where="wake_at IS NULL AND ended_at IS NULL"),
        partial("runs_open", "tenant", "listed_at", "task_id", where="current AND ended_at IS NULL"),
        partial("runs_ended", "tenant", "listed_at", "task_id", where="current AND ended_at IS NOT NULL"),
        partial("runs_failed", "tenant", "listed_at", "task_id", where="last_failure"),
        partial("runs_failed_of_task", "task_id", "scheduled_for", where="last_failure"),
        {"postgresql_with": {"fillfactor": 70}},  # percent of a page; the rest is for newer versions of its rows
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id"))
    tenant: Mapped[str]
    scheduled_for: Mapped[datetime]
    state: Mapped[State]
    generation: Mapped[int]
    number: Mapped[int]
    current: Mapped[bool]
    wake_at: Mapped[datetime | None]
    first_ready_at: Mapped[datetime | None]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    attempt: Mapped[int]
    failures: Mapped[int]
    crashes: Mapped[int]
    missed: Mapped[int]
    cancel_requested: Mapped[bool]
    progress: Mapped[Any | None] = mapped_column(JsonValue())
    checkpoint: Mapped[Any | None] = mapped_column(JsonValue())
    summary: Mapped[Said | None]
    result: Mapped[Any | None] = mapped_column(JsonValue())
    error: Mapped[Said | None]
    slot: Mapped[datetime | None]
    listed_at: Mapped[datetime]
    worker: Mapped[str | None]
    epoch: Mapped[int | None]
    lease_until: Mapped[datetime | None]
    deadline: Mapped[datetime | None]
    drop_at: Mapped[datetime | None]
    reserved: Mapped[Mapping[str, int] | None]
    token: Mapped[str | None]
    paused: Mapped[bool] = mapped_column(server_default=false())
    twin_hash: Mapped[int | None] = mapped_column(BigInteger)
    last_failure: Mapped[bool] = mapped_column(server_default=false())
    phase: Mapped[State | None] = mapped_column(Computed(PHASE, persisted=True))


class AttemptRow(Base):
    """One try of a run. Those without an end find the running runs."""

    __tablename__ = "attempts"
    __table_args__ = (
        partial("attempts_open", "run_id", where="ended_at IS NULL"),
        {"sqlite_with_rowid": False},
    )

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    worker: Mapped[str]
    started_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str | None]
    reason: Mapped[Said | None]


class TracebackRow(Base):
    """The traceback of an attempt that failed by an exception; apart, so that attempts without one stay small."""

    __tablename__ = "tracebacks"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    text: Mapped[Said]


class EventRow(Base):
    """One change of a task, its actor and reason. `revision` is the task's after it.

    `tx` orders commits where ids cannot. Its task and run are not foreign keys: they would
    cost each schedule call a tenth of its time in the server, and no statement deletes a task or a run.
    """

    __tablename__ = "events"
    __table_args__ = (
        Index("events_by_task", "task_id", "seq", unique=True),
        Index("events_by_time", "tenant", "at", "id"),
        partial("events_by_tx", "tx", "id", where="tx IS NOT NULL"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(Serial, primary_key=True)
    tenant: Mapped[str]
    task_id: Mapped[str]
    run_id: Mapped[str | None]
    seq: Mapped[int]
    at: Mapped[datetime]
    kind: Mapped[EventKind]
    actor: Mapped[Said]
    reason: Mapped[Said | None]
    from_state: Mapped[State | None]
    to_state: Mapped[State | None]
    attempt: Mapped[int | None]
    before: Mapped[Mapping[str, Any] | None]
    after: Mapped[Mapping[str, Any] | None]
    revision: Mapped[int | None]
    tx: Mapped[int | None] = mapped_column(BigInteger, server_default=ThisTransaction())


class KeyRow(Base):
    """An idempotency key and the content of its first use; `revision` is the task's after the change that it names.

    A key without a `revision` names the call that made the task. `look_at` is its earliest possible expiry: then it is
    examined, and removed or given a later one.
    """

    __tablename__ = "idempotency_keys"
    __table_args__ = (
        Index("idempotency_keys_by_look", "look_at"),
        {"sqlite_with_rowid": False},
    )

    tenant: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id"))
    fingerprint: Mapped[Mapping[str, Any]]
    expires_at: Mapped[datetime | None]
    derived: Mapped[bool]
    revision: Mapped[int | None]
    look_at: Mapped[datetime | None]


class DeadLetterRow(Base):
    """A run that is out of attempts, with the payload as it was."""

    __tablename__ = "dead_letters"
    __table_args__ = (Index("dead_letters_by_time", "tenant", "at", "run_id"),)

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id"))
    tenant: Mapped[str]
    at: Mapped[datetime]
    reason: Mapped[Said]
    payload: Mapped[Mapping[str, Any]]


class InboxRow(Base):
    """An outcome in a user's inbox; `mentioned_at` is when a list of tasks first named it."""

    __tablename__ = "inbox"
    __table_args__ = (
        Index("inbox_by_time", "tenant", "user", "created_at", "id"),
        partial("inbox_unread", "tenant", "user", "created_at", "id", where="read_at IS NULL"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    user: Mapped[str]
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id"))
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id"), unique=True)
    title: Mapped[Said]
    text: Mapped[Said]
    state: Mapped[State]
    created_at: Mapped[datetime]
    read_at: Mapped[datetime | None]
    mentioned_at: Mapped[datetime | None]


class DeliveryRow(Base):
    """Delivery of one outcome to a user through one channel; its inbox message must exist."""

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("deliveries_by_run", "run_id", "channel", unique=True),
        partial("deliveries_due", "next_at", where="next_at IS NOT NULL"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    tenant: Mapped[str]
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.id"))
    run_id: Mapped[str] = mapped_column(ForeignKey("inbox.run_id"))
    channel: Mapped[str]
    state: Mapped[DeliveryState]
    attempts: Mapped[int]
    next_at: Mapped[datetime | None]
    delivered_at: Mapped[datetime | None]
    error: Mapped[Said | None]


class RunnerRow(Base):
    """The one process that runs tasks; each new one raises the epoch. There is one row at most."""

    __tablename__ = "runner"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    epoch: Mapped[int]
    pid: Mapped[int]
    endpoint: Mapped[str]
    token: Mapped[str]
    started_at: Mapped[datetime]


tasks = table(TaskRow)
labels = table(LabelRow)
runs = table(RunRow)
attempts = table(AttemptRow)
tracebacks = table(TracebackRow)
events = table(EventRow)
keys = table(KeyRow)
dead_letters = table(DeadLetterRow)
deliveries = table(DeliveryRow)
inbox = table(InboxRow)
runner = table(RunnerRow)

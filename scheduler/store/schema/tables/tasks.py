"""The tables of tasks. The newest migration and the models are equal; a test compares them on both databases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.store.schema.base import Base, Said, column, partial, table
from duetime.scheduler.store.schema.json_types import JsonValue
from duetime.scheduler.task import DeadlineType, Notify, Penalty, RepeatPolicy, RetryPolicy, State, Tier
from sqlalchemy import BigInteger, Computed, ForeignKey, Index, false

PHASE = "CASE state WHEN 'running' THEN 'ready' ELSE state END"

OVERTAKABLE_RUNS = "overtaken_at IS NOT NULL AND ended_at IS NULL AND NOT cancel_requested AND NOT paused"
"""Open runs for which the next occurrence does not wait."""

BLOCKED_RUNS = "substr(runs.summary, 1, 9) = 'blocked: ' AND runs.ended_at IS NULL"
"""Runs that miss what they need."""


class TaskRow(Base):
    """A scheduled task, its title folded for comparison; other tasks come after one that is `followed`.

    Retention has deleted events before `history_from`. Only runs, which have an index of it, refer to it by a key.
    """

    __tablename__ = "tasks"
    __table_args__ = (
        Index("tasks_by_age", "tenant", "created_at"),
        partial("tasks_recurring", "tenant", "created_at", "id", where="repeat IS NOT NULL"),
        partial("tasks_paused_until", "paused_until", where="paused_until IS NOT NULL"),
    )

    id: str = column(primary_key=True)
    tenant: str
    owner: Said
    title: Said
    action: str
    payload: Mapping[str, Any]
    timezone: str
    when: Said
    repeat: str | None
    anchor: datetime
    until: datetime | None
    max_runs: int | None
    paused: bool
    retry: RetryPolicy
    deliver_to: tuple[str, ...]
    labels: tuple[str, ...]
    revision: int
    created_at: datetime
    updated_at: datetime
    title_folded: Said
    priority: Tier = column(server_default=Tier.NORMAL)
    deadline: Said | None
    deadline_after: timedelta | None
    deadline_type: DeadlineType = column(server_default=DeadlineType.SOFT)
    penalty: Penalty = column(server_default=Penalty.NONE)
    estimate: timedelta | None
    needs: Mapping[str, int] = column(server_default="{}")
    traceparent: str | None
    notify: Notify = column(server_default=Notify.ALWAYS)
    repeat_policy: RepeatPolicy | None
    expect: Mapping[str, Any] = column(server_default="{}")
    on_failure: Mapping[str, Any] = column(server_default="{}")
    origin: Mapping[str, Any] = column(server_default="{}")
    asks: Mapping[str, Any] | None
    key_template: Said | None
    history_from: int | None
    followed: bool = column(server_default=false())
    paused_until: datetime | None
    tracestate: str | None


class LabelRow(Base):
    """One label of one task, for filters; the task's own row keeps their order."""

    __tablename__ = "task_labels"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tenant: str = column(primary_key=True)
    label: Said = column(primary_key=True)
    task_id: str = column(primary_key=True)


class RunRow(Base):
    """One occurrence of a task. `listed_at` sorts lists: its next time while open, its end after that.

    `reserved` and `token` are the running attempt's reservations in the queue, for a rebuild of the queue. `paused`
    removes a run of a paused task from the indexes of the timers. `twin_hash` finds tasks of the same owner and title;
    ended runs of older versions have none. `last_failure` marks a run that failed or expired, until a later run of its
    task has ended. `check_at` is when a blocked run is checked again before it is due. `phase` is the state, with
    running ones as ready. No index names a column that a start, a renewal or a report changes, so PostgreSQL writes no
    index then. `runs_by_phase` is also the history of runs, by `listed_at`. `runs_side` has `ended_at`,
    which is null in all of it: SQLite would else take any index that begins with the task, and read its history.
    """

    __tablename__ = "runs"
    __table_args__ = (
        Index("runs_by_occurrence", "task_id", "scheduled_for", "generation", unique=True),
        Index("runs_by_number", "task_id", "number"),
        Index("runs_by_phase", "tenant", "current", "phase", "listed_at", "id"),
        partial("runs_current", "task_id", where="current", unique=True),
        Index("runs_by_twin", "twin_hash", "scheduled_for"),
        partial("runs_side", "task_id", "ended_at", where="NOT current AND ended_at IS NULL"),
        partial("runs_wake", "wake_at", where="wake_at IS NOT NULL AND NOT paused"),
        partial("runs_overtaken", "overtaken_at", where=OVERTAKABLE_RUNS),
        partial("runs_blocked", "check_at", where=BLOCKED_RUNS.replace("runs.", "")),
        partial("runs_paused", "id", where="paused AND ended_at IS NULL"),
        partial("runs_drop", "drop_at", where="drop_at IS NOT NULL AND ended_at IS NULL AND NOT paused"),
        partial("runs_active", "id", where="wake_at IS NULL AND ended_at IS NULL"),
        partial("runs_open", "tenant", "listed_at", "task_id", where="current AND ended_at IS NULL"),
        partial("runs_ended", "tenant", "listed_at", "task_id", where="current AND ended_at IS NOT NULL"),
        partial("runs_failed", "tenant", "listed_at", "task_id", where="last_failure"),
        partial("runs_unverified", "tenant", "task_id", where="phase = 'succeeded' AND error IS NOT NULL"),
        partial("runs_failed_of_task", "task_id", "scheduled_for", where="last_failure"),
        {"postgresql_with": {"fillfactor": 70}},  # percent of a page; the rest is for newer versions of its rows
    )

    id: str = column(primary_key=True)
    task_id: str = column(ForeignKey("tasks.id"))
    tenant: str
    scheduled_for: datetime
    state: State
    generation: int
    number: int
    current: bool
    wake_at: datetime | None
    first_ready_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int
    failures: int
    crashes: int
    missed: int
    cancel_requested: bool
    progress: Any | None = column(JsonValue())
    checkpoint: Any | None = column(JsonValue())
    summary: Said | None
    result: Any | None = column(JsonValue())
    error: Said | None
    slot: datetime | None
    listed_at: datetime
    worker: str | None
    epoch: int | None
    lease_until: datetime | None
    deadline: datetime | None
    drop_at: datetime | None
    reserved: Mapping[str, int] | None
    token: str | None
    paused: bool = column(server_default=false())
    twin_hash: int | None = column(BigInteger())
    last_failure: bool = column(server_default=false())
    failed_before: int = column(server_default="0")
    repeats: str | None
    overtaken_at: datetime | None
    occurrence: datetime | None
    check_at: datetime | None
    phase: State | None = column(Computed(PHASE, persisted=True))


class AttemptRow(Base):
    """One try of a run. Attempts without an end find the running runs."""

    __tablename__ = "attempts"
    __table_args__ = (
        partial("attempts_open", "run_id", where="ended_at IS NULL"),
        {"sqlite_with_rowid": False},
    )

    run_id: str = column(ForeignKey("runs.id"), primary_key=True)
    number: int = column(primary_key=True, autoincrement=False)
    worker: str
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    reason: Said | None


class TracebackRow(Base):
    """The traceback of an attempt that failed by an exception; apart, so that attempts without one stay small."""

    __tablename__ = "tracebacks"

    run_id: str = column(ForeignKey("runs.id"), primary_key=True)
    attempt: int = column(primary_key=True, autoincrement=False)
    text: Said


tasks = table(TaskRow)
labels = table(LabelRow)
runs = table(RunRow)
attempts = table(AttemptRow)
tracebacks = table(TracebackRow)

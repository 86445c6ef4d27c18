"""The tables of chains: dependencies between tasks, the tasks that one call made as steps, and those of past runs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.request import AfterFailure
from duetime.scheduler.store.schema.base import Base, Said, column, partial, table
from duetime.scheduler.store.schema.types import ClosedSet
from duetime.scheduler.task import State
from sqlalchemy import Index


class DependencyRow(Base):
    """A task comes after another one, `upstream_id`, whose last run ended at `closed_at` with `outcome`.

    `ended_run` is the waiting run that this outcome ended; it comes back when the upstream runs again. A result that
    does not meet `valid_output`, a JSON Schema, counts as a failure, and `mismatch` says why. Neither id is a foreign
    key: like events, dependencies are deleted with their task.
    """

    __tablename__ = "dependencies"
    __table_args__ = (
        Index("dependencies_by_upstream", "upstream_id", "task_id"),
        partial("dependencies_open", "upstream_id", where="closed_at IS NULL"),
        {"sqlite_with_rowid": False},
    )

    task_id: str = column(primary_key=True)
    upstream_id: str = column(primary_key=True)
    tenant: str
    after_failure: AfterFailure = column(ClosedSet(AfterFailure))
    closed_at: datetime | None
    outcome: State | None
    ended_run: str | None
    valid_output: Mapping[str, Any] | None
    mismatch: Said | None


class ChainRow(Base):
    """A chain; a recurring one has its rule as a task has, and the `number` and time of its current generation.

    `generation` counts also those that were left out.
    """

    __tablename__ = "chains"

    id: str = column(primary_key=True)
    tenant: str
    owner: Said
    title: Said
    timezone: str
    created_at: datetime
    repeat: str | None
    anchor: datetime | None
    until: datetime | None
    max_runs: int | None
    due_at: datetime | None
    number: int = column(server_default="1")
    generation: int = column(server_default="1")


class ChainStepRow(Base):
    """The step of a chain that a task is; `place` is its place in the order in which they may run."""

    __tablename__ = "chain_steps"
    __table_args__ = (Index("chain_steps_by_chain", "chain_id", "place"), {"sqlite_with_rowid": False})

    task_id: str = column(primary_key=True)
    chain_id: str
    tenant: str
    name: str
    place: int


class SpawnedTaskRow(Base):
    """A task that a step's `run_id` spawned, directly or by another one, and that is not of the current generation.

    The steps behind that step wait for it in the generation of the run, and in no other.
    """

    __tablename__ = "spawned_tasks"
    __table_args__ = (Index("spawned_tasks_by_run", "run_id"), {"sqlite_with_rowid": False})

    task_id: str = column(primary_key=True)
    tenant: str
    name: str
    run_id: str


dependencies = table(DependencyRow)
chains = table(ChainRow)
chain_steps = table(ChainStepRow)
spawned_tasks = table(SpawnedTaskRow)

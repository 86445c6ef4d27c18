"""Updates of tasks and runs that are still as they were read, by the columns that change; each is compiled once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.task import Run, Task
from sqlalchemy import Update, bindparam, update


def task_row(old: Task, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a `task_update`: the task as it was read, and its new values."""
    return {"of_task": old.id, "was_revision": old.revision, **_new(values)}


def run_row(old: Run, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a `run_update`: the run as it was read, and its new values."""
    return {"of_run": old.id, "was_state": old.state, "was_attempt": old.attempt, **_new(values)}


def _new(values: Mapping[str, Any]) -> dict[str, Any]:
    return {f"to_{name}": value for name, value in values.items()}


@lru_cache(maxsize=64)
def task_update(names: tuple[str, ...]) -> Update:
    unmoved = (tasks.c.id == bindparam("of_task"), tasks.c.revision == bindparam("was_revision"))
    return update(tasks).where(*unmoved).values({name: bindparam(f"to_{name}") for name in names})


@lru_cache(maxsize=64)
def run_update(names: tuple[str, ...]) -> Update:
    unmoved = (runs.c.state == bindparam("was_state"), runs.c.attempt == bindparam("was_attempt"))
    moved = update(runs).where(runs.c.id == bindparam("of_run"), *unmoved)
    return moved.values({name: bindparam(f"to_{name}") for name in names})


@lru_cache(maxsize=64)
def task_batch(names: tuple[str, ...]) -> Batch:
    return Batch(task_update(names))


@lru_cache(maxsize=64)
def run_batch(names: tuple[str, ...]) -> Batch:
    return Batch(run_update(names))

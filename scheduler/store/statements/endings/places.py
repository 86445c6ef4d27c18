"""Generations: a run is unique by its task, its time and a generation, so a new run takes a free generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.store.schema.rows import NEW_RUN_VALUES
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.task import Run
from sqlalchemy import Connection, bindparam, insert, select

ADD_RUNS = Batch(insert(runs), NEW_RUN_VALUES)
"""Stores runs of which each has a place; its rows are those of `new_run_values`."""

_TAKEN = select(runs.c.id, runs.c.task_id, runs.c.scheduled_for, runs.c.generation).where(
    runs.c.task_id.in_(bindparam("task_ids", expanding=True)),
    runs.c.scheduled_for.in_(bindparam("times", expanding=True)),
)


def placed(connection: Connection, coming: Sequence[Run]) -> list[Run]:
    """Return the runs with free generations, as an earlier run (skipped, cancelled, moved) may have the same time."""
    if not coming:
        return []
    given = {"task_ids": [run.task_id for run in coming], "times": [run.scheduled_for for run in coming]}
    ids, taken = {run.id for run in coming}, dict[tuple[str, datetime], int]()
    for row in connection.execute(_TAKEN, given):
        if row.id not in ids:
            place = (row.task_id, row.scheduled_for)
            taken[place] = max(row.generation, taken.get(place, 0))
    return [_behind(run, taken.get((run.task_id, run.scheduled_for), 0)) for run in coming]


def _behind(run: Run, taken_generation: int) -> Run:
    return run if taken_generation < run.generation else replace(run, generation=taken_generation + 1)

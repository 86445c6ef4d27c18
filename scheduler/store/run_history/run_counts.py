"""Counts runs by group and by time: the newest ones of a tenant up to a number, those of its filter alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from duetime.scheduler.history.runs import BucketWidth, RunFilter, RunGroup, TimeBucket
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.lists import run_filter
from duetime.scheduler.store.lists.label_counts import LABELS_OF_TASK, by_label
from duetime.scheduler.store.lists.time_buckets import Counted, minute_of, spread
from duetime.scheduler.store.run_history.run_walk import RunWalk, together
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.task import State
from sqlalchemy import Connection, func, select, type_coerce
from sqlalchemy.types import NullType

MAX_RUNS_COUNTED = 100_000
"""Runs of a tenant, the newest first, that a count reads."""


@dataclass(frozen=True, slots=True)
class RunCounter:
    """Counts runs of one tenant."""

    connection: Connection
    tenant: str
    where: RunFilter

    def groups(self, by: RunGroup) -> tuple[Mapping[str, int], datetime | None]:
        """Return the number of runs by group, and the time of the last run that was counted, unless all were."""
        found, reached = self._counted([_group(by)])
        if by is RunGroup.LABEL:
            return by_label(found), reached
        return {str(key): count for (key,), count in found.items() if key is not None}, reached

    def minutes(self, width: BucketWidth) -> tuple[Counted, datetime | None]:
        """Return the number of runs by minute, or quarter of an hour, since 1970 and by state."""
        minute = minute_of(runs.c.listed_at, width, dialect_of(self.connection))
        return self._counted([minute, type_coerce(runs.c.state, NullType())])

    def _counted(self, keys: Sequence[Any]) -> tuple[Counted, datetime | None]:
        walk = RunWalk(self.connection, self.tenant, replace(self.where, oldest_first=False))
        conditions = run_filter.compared(self.tenant, self.where, dialect_of(self.connection))
        named = [key.label(f"key_{place}") for place, key in enumerate(keys)]
        columns = (*named, func.count())
        if self.where.task_id is None:
            reached = walk.boundary(MAX_RUNS_COUNTED)
            parts = walk.parts(columns, conditions, reached)
        else:
            reached, parts = None, [walk.known(columns, runs.c.task_id == self.where.task_id, conditions)]
        found: Counted = Counter()
        with dialect_of(self.connection).undecoded(self.connection):
            for row in self.connection.execute(together([part.group_by(*named) for part in parts])):
                found[tuple(row[:-1])] += row[-1]
        return found, reached.at if reached else None


def _group(by: RunGroup) -> Any:
    of_run = {
        RunGroup.STATE: runs.c.state,
        RunGroup.WORKER: runs.c.worker,
        RunGroup.ERROR: runs.c.error,
        RunGroup.TENANT: runs.c.tenant,
    }
    if by in of_run:
        return type_coerce(of_run[by], NullType())
    of_task = {
        RunGroup.ACTION: tasks.c.action,
        RunGroup.TIER: tasks.c.priority,
        RunGroup.LABEL: LABELS_OF_TASK,
    }[by]
    found = select(type_coerce(of_task, NullType())).where(tasks.c.id == runs.c.task_id)
    return found.correlate(runs).scalar_subquery()


def buckets(counted: Counted, width: BucketWidth, zone: str) -> list[TimeBucket]:
    """Add up minutes or quarters to the buckets of a zone, oldest first."""
    return [
        TimeBucket(start, {State(state): count for state, count in counts.items()})
        for start, counts in spread(counted, width, zone)
    ]

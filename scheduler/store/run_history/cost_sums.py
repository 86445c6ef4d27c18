"""Adds up what attempts cost: by the index of use that has a cost, so free use is never read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import product
from typing import Any, Final

from duetime.scheduler.history.costs import CostGroup
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.durations import EPOCH
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.lists.label_counts import LABELS_OF_TASK, labels_in
from duetime.scheduler.store.lists.time_buckets import QUARTER_OF_HOUR_S
from duetime.scheduler.store.schema.tables.pools import usage
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from sqlalchemy import Connection, func, select, type_coerce
from sqlalchemy.types import NullType

CostKey = tuple[str, ...]
"""The group of a sum by each of the groups that were asked for."""

_OF_TASK: Final = {
    CostGroup.ACTION: tasks.c.action,
    CostGroup.TIER: tasks.c.priority,
    CostGroup.TASK: tasks.c.id,
    CostGroup.LABEL: LABELS_OF_TASK,
}
_OF_USE: Final = {CostGroup.TENANT: usage.c.tenant, CostGroup.POOL: usage.c.pool}


def cost_sums(
    connection: Connection,
    tenants: Sequence[str],
    since: datetime,
    until: datetime,
    *,
    groups: Sequence[CostGroup],
    zone: str,
) -> Counter[CostKey]:
    """Return the cost in millionths by group; days are those of the zone."""
    keys = [_column(connection, group).label(f"key_{place}") for place, group in enumerate(groups)]
    joined = usage
    if _OF_TASK.keys() & set(groups):
        joined = usage.join(runs, runs.c.id == usage.c.run_id).join(tasks, tasks.c.id == runs.c.task_id)  # type: ignore[assignment]  # a join is a table too
    statement = (
        select(*keys, func.sum(usage.c.cost))
        .select_from(joined)
        .where(usage.c.tenant.in_(tenants), usage.c.cost.is_not(None), usage.c.at >= since, usage.c.at < until)
        .group_by(*keys)
    )
    found: Counter[CostKey] = Counter()
    home = zones.load(zone)
    with dialect_of(connection).undecoded(connection):
        rows = connection.execute(statement).all()
    for *values, cost in rows:
        for key in product(*(_names(group, value, home) for group, value in zip(groups, values, strict=True))):
            found[key] += int(cost)
    return found


def _column(connection: Connection, group: CostGroup) -> Any:
    if group is CostGroup.DAY:
        minute = dialect_of(connection).minutes(usage.c.at)
        return minute - minute % (QUARTER_OF_HOUR_S // 60)
    return type_coerce(_OF_TASK[group] if group in _OF_TASK else _OF_USE[group], NullType())


def _names(group: CostGroup, value: Any, home: Any) -> Iterable[str]:
    if group is CostGroup.LABEL:
        return labels_in(value) or [""]
    return [_day(value, home) if group is CostGroup.DAY else str(value)]


def _day(minute: Any, home: Any) -> str:
    return (EPOCH + timedelta(minutes=int(minute))).astimezone(home).date().isoformat()

"""Counts events by group and by time: the newest ones of a tenant, or of a task, up to a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from duetime.scheduler.events import EventFilter
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import BucketWidth
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.lists.event_walk import EventKey, EventWalk, compared, of_task
from duetime.scheduler.store.lists.label_counts import LABELS_OF_TASK, by_label
from duetime.scheduler.store.lists.tenants import tenants
from duetime.scheduler.store.lists.time_buckets import Counted, minute_of
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import tasks
from duetime.scheduler.store.schema.values import LAST_INSTANT
from sqlalchemy import Connection, func, select, type_coerce
from sqlalchemy.types import NullType

MAX_COUNTED_EVENTS: Final = 100_000
"""Events of a tenant, the newest first, that a count reads."""

MAX_EVENT_GROUPS: Final = 1_000


def groups(
    connection: Connection, tenant: str | None, where: EventFilter, by: EventGroup
) -> tuple[Mapping[str, int], datetime | None]:
    """Return the number of events by group, the largest first, and how far back all of them were counted."""
    found = [_EventCounter(connection, each, where).groups(by) for each in _named(connection, tenant)]
    counted: Counter[str] = sum((counts for counts, _ in found), Counter())
    ranked = sorted(counted.items(), key=lambda group: (-group[1], group[0]))
    return dict(ranked[:MAX_EVENT_GROUPS]), _latest(reached for _, reached in found)


def minutes(
    connection: Connection, tenant: str | None, where: EventFilter, width: BucketWidth
) -> tuple[Counted, datetime | None]:
    """Return the number of events by minute, or quarter of an hour, and by kind."""
    found = [_EventCounter(connection, each, where).minutes(width) for each in _named(connection, tenant)]
    return sum((counts for counts, _ in found), Counter()), _latest(reached for _, reached in found)


def _named(connection: Connection, tenant: str | None) -> list[str]:
    return tenants(connection) if tenant is None else [tenant]


def _latest(times: Iterable[datetime | None]) -> datetime | None:
    return max((each for each in times if each is not None), default=None)


@dataclass(frozen=True, slots=True)
class _EventCounter:
    """Counts events of one tenant."""

    connection: Connection
    tenant: str
    where: EventFilter

    def groups(self, by: EventGroup) -> tuple[Counter[str], datetime | None]:
        found, reached = self._counted([_group(by)])
        if by is EventGroup.LABEL:
            return by_label(found), reached
        counts: Counter[str] = Counter()
        for (key,), count in found.items():
            if key is not None:
                counts[_word(str(key), by)] += count
        return counts, reached

    def minutes(self, width: BucketWidth) -> tuple[Counted, datetime | None]:
        minute = minute_of(events.c.at, width, dialect_of(self.connection))
        return self._counted([minute, type_coerce(events.c.kind, NullType())])

    def _counted(self, keys: Sequence[Any]) -> tuple[Counted, datetime | None]:
        walk = EventWalk(self.connection, self.tenant, self.where)
        conditions = compared(self.tenant, self.where, dialect_of(self.connection))
        reached: EventKey | None = None
        if self.where.task_id is None:
            reached = walk.boundary(MAX_COUNTED_EVENTS)
        else:
            conditions.append(of_task(self.where.task_id))
        oldest = self._oldest_of_task()
        if oldest is not None:
            conditions.append(events.c.seq >= oldest)
        named = [key.label(f"key_{place}") for place, key in enumerate(keys)]
        statement = walk.rows(*named, func.count(), conditions=conditions, down_to=reached)
        found: Counted = Counter()
        with dialect_of(self.connection).undecoded(self.connection):
            for row in self.connection.execute(statement.group_by(*named)):
                found[tuple(row[:-1])] += row[-1]
        return found, reached.at if reached else self._time_of(oldest)

    def _oldest_of_task(self) -> int | None:
        """Return the number of the oldest event of the task that is counted, None when all are."""
        if self.where.task_id is None or is_chain_id(self.where.task_id):
            return None
        newest = select(func.max(events.c.seq)).where(events.c.task_id == self.where.task_id)
        oldest = (self.connection.execute(newest).scalar() or 0) - MAX_COUNTED_EVENTS + 1
        return oldest if oldest > 1 else None

    def _time_of(self, seq: int | None) -> datetime | None:
        if seq is None:
            return None
        of_task = (events.c.task_id == self.where.task_id, events.c.tenant == self.tenant, events.c.seq >= seq)
        first = select(events.c.at).where(*of_task).order_by(events.c.seq).limit(1)
        rows = unreadable.rows(self.connection, first)
        return next((at if isinstance(at, datetime) else LAST_INSTANT for (at,) in rows), None)


def _word(key: str, by: EventGroup) -> str:
    """Return the word of a group: a surface without the address behind it."""
    return key.partition(" ")[0] if by is EventGroup.SURFACE else key


def _group(by: EventGroup) -> Any:
    own = {
        EventGroup.KIND: events.c.kind,
        EventGroup.STATE: events.c.to_state,
        EventGroup.ACTOR: events.c.actor,
        EventGroup.SURFACE: events.c.via,
        EventGroup.TENANT: events.c.tenant,
    }
    if by in own:
        return type_coerce(own[by], NullType())
    of_task = LABELS_OF_TASK if by is EventGroup.LABEL else tasks.c.action
    found = select(type_coerce(of_task, NullType())).where(tasks.c.id == events.c.task_id)
    return found.correlate(events).scalar_subquery()

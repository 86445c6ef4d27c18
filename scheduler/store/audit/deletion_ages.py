"""The ages at which recorded events were deleted, as far as a chain knows them.

A segment knows the time of its oldest event, so none of its events was older than that when its removal was recorded.
Nobody without the key can change this time, nor the one at which the record was sealed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta

from duetime.scheduler.audit.chain import Segment
from duetime.scheduler.audit.verdict import Break, Removal
from duetime.scheduler.history.retention import MIN_AGE
from duetime.scheduler.store.audit.removals import RemovalRecord

LeastAge = Callable[[date], timedelta]
"""Returns the age from which the rules of a day let events go."""


class DeletionAges:
    """Gathers what was deleted. `sealed` are the times at which records of removals came into the chain."""

    def __init__(self) -> None:
        self._events = Counter[tuple[RemovalRecord, datetime | None]]()
        self._first: dict[tuple[RemovalRecord, datetime | None], tuple[int, int]] = {}
        self.sealed: dict[int, datetime] = {}

    def add(self, entry: int, event_id: int, segment: Segment, record: RemovalRecord) -> None:
        """Note that an event, which is an entry of a segment, was deleted by a record."""
        self._events[record, segment.oldest_at] += 1
        self._first.setdefault((record, segment.oldest_at), (entry, event_id))

    def removals(self, least_age: LeastAge | None) -> tuple[Removal, ...]:
        """Return the removals by day; those below the `least_age` are too young, and without one none is."""
        events, young = Counter[date](), Counter[date]()
        for (record, oldest_at), count in self._events.items():
            day = record.at.astimezone(UTC).date()
            events[day] += count
            if least_age is not None:
                least = least_age(self.sealed.get(record.id, record.at).astimezone(UTC).date())
                young[day] += count if self._age(record, oldest_at, least) < least else 0
        return tuple(Removal(day, events[day], young[day]) for day in sorted(events))

    def broken(self) -> Break | None:
        """Return the first event that was deleted at an age at which no rule can be meant."""
        young = [self._first[key] for key in self._events if self._age(*key, MIN_AGE) < MIN_AGE]
        if not young:
            return None
        entry, event_id = min(young)
        return Break(entry, f"event {event_id} was deleted within a day, and no rule of retention is as short")

    def _age(self, record: RemovalRecord, oldest_at: datetime | None, unknown: timedelta) -> timedelta:
        """Return the most that the age of events can have been when a record came."""
        if oldest_at is None:
            return unknown
        return min(record.at, self.sealed.get(record.id, record.at)) - oldest_at

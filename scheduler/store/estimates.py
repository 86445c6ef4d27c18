"""Learned durations of actions: one histogram for each action of a tenant."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from duetime.scheduler.rules.estimates import ActionKey, Histogram
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.pools import estimates
from sqlalchemy import Connection, bindparam, insert, select, tuple_, update

_MANY = select(estimates.c.tenant, estimates.c.action, estimates.c.histogram).where(
    tuple_(estimates.c.tenant, estimates.c.action).in_(bindparam("wanted", expanding=True))
)
_MAX_KEYS_PER_QUERY = 500
_ITS = (estimates.c.tenant == bindparam("of_tenant"), estimates.c.action == bindparam("of_action"))
_ONE = select(estimates.c.histogram).where(*_ITS)
_UPDATE = update(estimates).where(*_ITS)
_WRITE_LOCK_ID = 0x65737469  # "esti"


class Estimates:
    """Stored histograms. Decay and merging are pure: `rules.estimates`."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def get(self, keys: Sequence[ActionKey]) -> dict[ActionKey, Histogram]:
        """Return the histograms of these actions; an action without one is left out."""
        parts = (keys[start : start + _MAX_KEYS_PER_QUERY] for start in range(0, len(keys), _MAX_KEYS_PER_QUERY))
        return {of: histogram for part in parts for of, histogram in self._of(part).items()}

    def _of(self, keys: Sequence[ActionKey]) -> dict[ActionKey, Histogram]:
        rows = self._database.look(lambda connection: unreadable.rows(connection, _MANY, {"wanted": list(keys)}))
        return {(row.tenant, row.action): Histogram.from_json(row.histogram) for row in rows}

    def add(self, deltas: Mapping[ActionKey, Sequence[float]]) -> None:
        """Add durations of successful attempts in seconds, oldest first; concurrent callers lose none."""

        def work(connection: Connection) -> None:
            dialect_of(connection).wait_for_lock(connection, _WRITE_LOCK_ID)  # a new row cannot be locked
            for of, seconds in deltas.items():
                self._merge(connection, of, seconds)

        if deltas:
            self._database.write(work, durable=False)

    def _merge(self, connection: Connection, of: ActionKey, seconds: Sequence[float]) -> None:
        its = dict(zip(("of_tenant", "of_action"), of, strict=True))
        found, damaged = unreadable.every(connection, _ONE, its)
        earlier = Histogram.from_json(found[0].histogram) if found and not damaged else Histogram.empty()
        merged = earlier.merged(seconds)
        values = {
            "histogram": merged.to_json(),
            "weight": sum(merged.weights.values()),
            "updated_at": self._now(),
        }
        if found:
            connection.execute(_UPDATE.values(values), its)
        else:
            connection.execute(insert(estimates).values(tenant=of[0], action=of[1], **values))

"""Units of pools that attempts used. A row is written with the attempt's end; budgets are rebuilt from these rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.pool_tables import usage
from sqlalchemy import Connection, bindparam, func, select

_SPENT = select(func.sum(usage.c.units)).where(usage.c.pool == bindparam("of_pool"), usage.c.at >= bindparam("start"))
_FIRST = select(func.min(usage.c.at)).where(usage.c.pool == bindparam("of_pool"))


class Usage:
    """Recorded use of pools."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def since(self, starts: Mapping[str, datetime]) -> dict[str, float]:
        """Return by pool the units used since its instant; 0.0 for none."""

        def work(connection: Connection) -> dict[str, float]:
            return {pool: _spent(connection, pool, start) for pool, start in starts.items()}

        return self._database.read(work)

    def first(self, pool: str) -> datetime | None:
        """Return the time of the first recorded use of a pool; None without one."""
        return self._database.read(lambda connection: connection.execute(_FIRST, {"of_pool": pool}).scalar())


def _spent(connection: Connection, pool: str, start: datetime) -> float:
    return connection.execute(_SPENT, {"of_pool": pool, "start": start}).scalar() or 0.0

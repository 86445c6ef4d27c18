"""What attempts really used of pools. Rows are written with the attempt's end; budgets are rebuilt from them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from duetime.scheduler.store.database import Database
from duetime.scheduler.store.resources import usage
from sqlalchemy import Connection, bindparam, func, select

_SPENT = select(func.sum(usage.c.units)).where(usage.c.pool == bindparam("of_pool"), usage.c.at >= bindparam("start"))


class Usage:
    """The account of what was used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def since(self, starts: Mapping[str, datetime]) -> dict[str, float]:
        """Return what was used of each pool from its instant on; 0.0 for nothing."""

        def work(connection: Connection) -> dict[str, float]:
            return {pool: _spent(connection, pool, start) for pool, start in starts.items()}

        return self._database.read(work)


def _spent(connection: Connection, pool: str, start: datetime) -> float:
    return connection.execute(_SPENT, {"of_pool": pool, "start": start}).scalar() or 0.0

"""Units of pools that attempts used. A row is written with the attempt's end; budgets are rebuilt from these rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from duetime.scheduler.rules.limits.pool import TEMPLATE_SUFFIX, Pool, costs_of
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.tables.pools import usage
from sqlalchemy import ColumnElement, Connection, bindparam, func, select

_SPENT = select(func.sum(usage.c.units)).where(usage.c.pool == bindparam("of_pool"), usage.c.at >= bindparam("start"))
_FIRST = select(func.min(usage.c.at))

_OF_RUN = select(func.sum(usage.c.cost)).where(usage.c.run_id == bindparam("of_run"))
_COST = select(func.sum(usage.c.cost)).where(
    usage.c.tenant == bindparam("of_tenant"), usage.c.at >= bindparam("start"), usage.c.cost.is_not(None)
)


class Usage:
    """Recorded use of pools."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.declared: Callable[[], Mapping[str, Pool]] = dict
        """Returns the declared pools; they are known to a process that settles, so this makes no query."""

        self.currency = "USD"
        """The currency of all prices; it is a name alone, and nothing is converted."""

    def pools(self) -> Mapping[str, Pool]:
        """Return the declared pools, with their prices."""
        return self.declared()

    def costs(self, used: Mapping[str, float]) -> dict[str, int]:
        """Return by pool what used units cost now, in millionths; pools without a price are left out."""
        return costs_of(used, self.pools()) if used else {}

    def cost_since(self, tenant: str, start: datetime) -> int:
        """Return what attempts of a tenant cost that ended since an instant, in millionths."""
        of_tenant = {"of_tenant": tenant, "start": start}
        return int(self._database.read(lambda connection: connection.execute(_COST, of_tenant).scalar()) or 0)

    def cost_of(self, run_id: str) -> int | None:
        """Return what the attempts of a run cost, in millionths; None where it used no pool with a price."""
        found: int | None = self._database.read(
            lambda connection: connection.execute(_OF_RUN, {"of_run": run_id}).scalar()
        )
        return None if found is None else int(found)

    def since(self, starts: Mapping[str, datetime]) -> dict[str, float]:
        """Return by pool the units used since its instant; 0.0 for none.

        In place of a template it has the pools that were made from it and used since.
        """

        def work(connection: Connection) -> dict[str, float]:
            found: dict[str, float] = {}
            for pool, start in starts.items():
                found |= _spent(connection, pool, start)
            return found

        return self._database.read(work)

    def first(self, pool: str) -> datetime | None:
        """Return the time of the first recorded use of a pool, or of any pool of a template; None without one."""
        asked = _FIRST.where(_is_of(pool) if pool.endswith(TEMPLATE_SUFFIX) else usage.c.pool == pool)
        return self._database.read(lambda connection: connection.execute(asked).scalar())


def _spent(connection: Connection, pool: str, start: datetime) -> dict[str, float]:
    if not pool.endswith(TEMPLATE_SUFFIX):
        return {pool: connection.execute(_SPENT, {"of_pool": pool, "start": start}).scalar() or 0.0}
    of_each = select(usage.c.pool, func.sum(usage.c.units)).where(_is_of(pool), usage.c.at >= start)
    return {name: float(units) for name, units in connection.execute(of_each.group_by(usage.c.pool))}


def _is_of(template: str) -> ColumnElement[bool]:
    return usage.c.pool.startswith(template[:-1], autoescape=True)

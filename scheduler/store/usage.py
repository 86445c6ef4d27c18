"""Units of pools that attempts used. A row is written with the attempt's end; budgets are rebuilt from these rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime

from duetime.scheduler.rules.limits.pool import TEMPLATE_SUFFIX, Pool, costs_of
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.tables.pools import usage
from sqlalchemy import Connection, String, bindparam, func, select

_SPENT = select(func.sum(usage.c.units)).where(usage.c.pool == bindparam("of_pool"), usage.c.at >= bindparam("start"))
_FIRST = select(func.min(usage.c.at)).where(usage.c.pool == bindparam("of_pool"))

_used = select(func.min(usage.c.pool).label("name")).cte("used", recursive=True)
_next = select(func.min(usage.c.pool)).where(usage.c.pool > _used.c.name).scalar_subquery()
_used = _used.union_all(select(_next).where(_used.c.name.is_not(None)))
"""The pools that were used, each found by one step in the index.

All of them: in the order of a database's language those of one template need not be neighbours.
"""

_of_each = usage.c.pool == _used.c.name
_prefix = bindparam("prefix", type_=String())
_is_of = func.substr(_used.c.name, 1, func.length(_prefix)) == _prefix
_spent_of_each = select(func.sum(usage.c.units)).where(_of_each, usage.c.at >= bindparam("start")).scalar_subquery()
_first_of_each = select(func.min(usage.c.at)).where(_of_each).scalar_subquery()
_SPENT_OF_TEMPLATE = select(_used.c.name, _spent_of_each).where(_is_of)
_FIRST_OF_TEMPLATE = select(_first_of_each).where(_is_of)

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
        return int(self._database.look(lambda connection: connection.execute(_COST, of_tenant).scalar()) or 0)

    def cost_of(self, run_id: str) -> int | None:
        """Return what the attempts of a run cost, in millionths; None where it used no pool with a price."""
        found: int | None = self._database.look(
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
        if not pool.endswith(TEMPLATE_SUFFIX):
            return self._database.look(lambda connection: connection.execute(_FIRST, {"of_pool": pool}).scalar())
        of_template = {"prefix": pool[:-1]}
        firsts = self._database.look(lambda it: it.execute(_FIRST_OF_TEMPLATE, of_template).scalars().all())
        return min((at for at in firsts if at is not None), default=None)


def _spent(connection: Connection, pool: str, start: datetime) -> dict[str, float]:
    if not pool.endswith(TEMPLATE_SUFFIX):
        return {pool: connection.execute(_SPENT, {"of_pool": pool, "start": start}).scalar() or 0.0}
    of_template = {"prefix": pool[:-1], "start": start}
    of_each = connection.execute(_SPENT_OF_TEMPLATE, of_template)
    return {name: float(units) for name, units in of_each if units is not None}

"""Tasks whose changes follow from one another: those that come after others, and steps of one chain."""

from __future__ import annotations

from collections.abc import Sequence

from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies
from sqlalchemy import BindParameter, Connection, bindparam, select

MAX_RELATED_TASKS = 20_000

_IDS: BindParameter[str] = bindparam("task_ids", expanding=True)
_TENANT: BindParameter[str] = bindparam("tenant")
_BEHIND = select(dependencies.c.upstream_id, dependencies.c.task_id).where(
    dependencies.c.upstream_id.in_(_IDS), dependencies.c.tenant == _TENANT
)
_OF_CHAINS = select(chain_steps.c.task_id, chain_steps.c.chain_id).where(
    chain_steps.c.task_id.in_(_IDS), chain_steps.c.tenant == _TENANT
)


def related(connection: Connection, tenant: str, task_ids: Sequence[str]) -> list[tuple[str, str]]:
    """Return pairs of related tasks, and of steps with their chains: of these tasks, and of all behind them."""
    known, pairs = set(task_ids), list[tuple[str, str]]()
    reached = list(known)
    while reached and len(known) <= MAX_RELATED_TASKS:
        found = [(row[0], row[1]) for row in connection.execute(_BEHIND, {"task_ids": reached, "tenant": tenant})]
        pairs += found
        reached = list({task_id for _, task_id in found} - known)
        known.update(reached)
    return pairs + [
        (row[0], row[1]) for row in connection.execute(_OF_CHAINS, {"task_ids": sorted(known), "tenant": tenant})
    ]

"""Lists the tenants that have tasks."""

from __future__ import annotations

from sqlalchemy import Connection, text

_TENANTS = text(
    """WITH RECURSIVE of_tasks(tenant) AS (
        SELECT min(tenant) FROM tasks
        UNION ALL SELECT (SELECT min(tenant) FROM tasks WHERE tasks.tenant > of_tasks.tenant) FROM of_tasks
        WHERE of_tasks.tenant IS NOT NULL
    ) SELECT tenant FROM of_tasks WHERE tenant IS NOT NULL"""
)


def tenants(connection: Connection) -> list[str]:
    """Return every tenant that has a task, by one look at the index of tasks for each tenant."""
    return list(connection.execute(_TENANTS).scalars())

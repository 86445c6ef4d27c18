"""Runs that failed or expired are marked until a later run of their task has ended, and found by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

MARK = """UPDATE runs SET last_failure = (1 = 1) WHERE id IN (
    SELECT id FROM (
        SELECT id, state, row_number() OVER (PARTITION BY task_id ORDER BY scheduled_for DESC, generation DESC) AS place
        FROM runs
        WHERE ended_at IS NOT NULL AND state <> 'skipped' AND (state <> 'cancelled' OR started_at IS NOT NULL)
    ) AS ended
    WHERE place = 1 AND state IN ('failed', 'expired')
)"""


def upgrade() -> None:
    op.add_column("runs", sa.Column("last_failure", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.execute(MARK)
    _partial("runs_failed", "tenant", "listed_at", "task_id")
    _partial("runs_failed_of_task", "task_id", "scheduled_for")


def _partial(name: str, *columns: str) -> None:
    where = sa.text("last_failure")
    op.create_index(name, "runs", list(columns), sqlite_where=where, postgresql_where=where)

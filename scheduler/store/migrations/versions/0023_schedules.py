"""Recurring tasks have an index of their own, for the list of schedules."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    recurs = sa.text("repeat IS NOT NULL")
    op.create_index(
        "tasks_recurring",
        "tasks",
        ["tenant", "created_at", "id"],
        sqlite_where=recurs,
        postgresql_where=recurs,
    )

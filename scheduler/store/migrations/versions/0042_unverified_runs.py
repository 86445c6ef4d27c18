"""Finds runs that succeeded without what their tasks expect."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    unverified = sa.text("phase = 'succeeded' AND error IS NOT NULL")
    op.create_index(
        "runs_unverified",
        "runs",
        ["tenant", "task_id"],
        sqlite_where=unverified,
        postgresql_where=unverified,
    )

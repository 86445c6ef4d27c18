"""Tasks and deliveries keep the `tracestate` that belongs to their `traceparent`; NULL without one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0049"
down_revision = "0048"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("tracestate", sa.Text(), nullable=True))
    op.add_column("deliveries", sa.Column("tracestate", sa.Text(), nullable=True))

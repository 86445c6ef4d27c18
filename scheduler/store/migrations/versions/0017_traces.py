"""Tasks keep the trace of the call that scheduled them, and deliveries that of their attempt; NULL without tracing."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("traceparent", sa.Text(), nullable=True))
    op.add_column("deliveries", sa.Column("traceparent", sa.Text(), nullable=True))

"""Lines that handlers log are kept with their runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from duetime.scheduler.store.schema.types import Instant, Truth

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_logs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("first", sa.Integer(), nullable=False),
        sa.Column("last", Truth(), nullable=False),
        sa.Column("lines", sa.Integer(), nullable=False),
        sa.Column("cut", sa.Integer(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("at", Instant(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", "first", "last", name="run_logs_pk"),
    )

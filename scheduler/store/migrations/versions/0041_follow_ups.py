"""Failures make tasks; older code makes none of them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from duetime.scheduler.store.schema.json_types import JsonValue
from duetime.scheduler.store.schema.types import Instant

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "follow_ups",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("of_task", sa.Text(), nullable=False),
        sa.Column("of_run", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("why", sa.Text(), nullable=False),
        sa.Column("result", JsonValue(), nullable=True),
        sa.Column("at", Instant(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="follow_ups_pk"),
    )
    op.create_index("follow_ups_of_run", "follow_ups", ["of_run"], unique=True)
    op.create_index("follow_ups_of_task", "follow_ups", ["of_task", "at"])

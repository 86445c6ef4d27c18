"""Recurring tasks say how they behave; a run stores how many before it failed in a row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

JSON = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("repeat_policy", JSON, nullable=True))
    op.add_column("runs", sa.Column("failed_before", sa.Integer(), nullable=False, server_default="0"))

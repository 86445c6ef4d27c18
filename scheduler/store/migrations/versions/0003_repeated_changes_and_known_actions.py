"""Idempotency keys of changes, and the actions that workers know."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("idempotency_keys", sa.Column("revision", sa.Integer(), nullable=True))
    json = sa.Text().with_variant(JSONB(), "postgresql")
    op.add_column("workers", sa.Column("actions", json, nullable=False, server_default="[]"))

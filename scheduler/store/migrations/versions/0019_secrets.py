"""Secrets: encrypted values that tasks name."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("token", sa.Text(), nullable=False),
        sa.Column("hosts", JSON, nullable=False),
        sa.Column("set_at", INSTANT, nullable=False),
        sa.Column("set_by", sa.Text(), nullable=False),
        sa.Column("last_used_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("tenant", "name", name="secrets_pk"),
        sqlite_with_rowid=False,
    )

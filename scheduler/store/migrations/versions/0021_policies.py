"""Versions of the policy: the numbers that decide the order of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "policies",
        sa.Column("version", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("content", JSON, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("via", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("version", name="policies_pk"),
        sqlite_with_rowid=False,
    )

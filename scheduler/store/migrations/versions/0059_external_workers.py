"""Workers elsewhere that claim runs over MCP: by which actions, and when each last called."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0059"
down_revision = "0058"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
STRINGS = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "external_workers",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("user", sa.Text(), nullable=False),
        sa.Column("client", sa.Text(), nullable=True),
        sa.Column("everywhere", sa.Boolean(), nullable=False),
        sa.Column("actions", STRINGS, nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("seen_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "user", name="external_workers_pk"),
        sqlite_with_rowid=False,
    )

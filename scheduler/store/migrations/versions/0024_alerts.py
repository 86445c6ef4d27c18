"""Alerts: their phases, what channels were told of them, and whose turn it is to look."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "alerts",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("rule", "key", name="alerts_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "alert_notices",
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("channel", sa.Text(), nullable=False),
        sa.Column("told", sa.Text(), nullable=True),
        sa.Column("told_at", INSTANT, nullable=True),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("try_at", INSTANT, nullable=True),
        sa.PrimaryKeyConstraint("rule", "key", "channel", name="alert_notices_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "turns",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("next_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("name", name="turns_pk"),
        sqlite_with_rowid=False,
    )

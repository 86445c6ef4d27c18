"""Runs wait for approvals. Older code would let such runs go: ask for approval when all processes are upgraded."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "approvals",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("question", sa.Text(), nullable=True),
        sa.Column("default", sa.String(), nullable=False),
        sa.Column("asked_at", INSTANT, nullable=False),
        sa.Column("ends_at", INSTANT, nullable=True),
        sa.Column("closed_at", INSTANT, nullable=True),
        sa.Column("answer", sa.String(), nullable=True),
        sa.Column("answered_by", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "attempt", name="approvals_pk"),
        sqlite_with_rowid=False,
    )
    asked = sa.text("closed_at IS NULL")
    op.create_index("approvals_open", "approvals", ["ends_at"], sqlite_where=asked, postgresql_where=asked)

"""Blocked runs are found, and each stores when it is checked again before it is due."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0048"
down_revision = "0047"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.add_column("runs", sa.Column("check_at", INSTANT, nullable=True))
    where = sa.text("substr(summary, 1, 9) = 'blocked: ' AND ended_at IS NULL")
    op.create_index("runs_blocked", "runs", ["check_at"], sqlite_where=where, postgresql_where=where)

"""A run knows when the next occurrence of its task is due and does not wait for it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0044"
down_revision = "0043"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
OVERTAKABLE = "overtaken_at IS NOT NULL AND ended_at IS NULL AND NOT cancel_requested AND NOT paused"


def upgrade() -> None:
    op.add_column("runs", sa.Column("overtaken_at", INSTANT, nullable=True))
    where = sa.text(OVERTAKABLE)
    op.create_index("runs_overtaken", "runs", ["overtaken_at"], sqlite_where=where, postgresql_where=where)

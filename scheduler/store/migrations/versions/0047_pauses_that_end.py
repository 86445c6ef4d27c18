"""A paused task may have a time at which it continues by itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0047"
down_revision = "0046"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("paused_until", INSTANT, nullable=True))
    where = sa.text("paused_until IS NOT NULL")
    op.create_index("tasks_paused_until", "tasks", ["paused_until"], sqlite_where=where, postgresql_where=where)

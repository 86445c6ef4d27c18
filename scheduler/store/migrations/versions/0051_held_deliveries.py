"""Deliveries that quiet hours hold know until when, and the open runs of paused tasks are counted by an index."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import sqlalchemy as sa
from alembic import op

revision = "0051"
down_revision = "0050"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
LONGEST_LEASE = timedelta(minutes=1)
HELD = "UPDATE deliveries SET held_until = next_at WHERE attempts = 0 AND next_at > :after"


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("held_until", INSTANT, nullable=True))
    connection, after = op.get_bind(), datetime.now(UTC) + LONGEST_LEASE
    at = after if connection.dialect.name == "postgresql" else int(after.timestamp() * 1_000_000)
    connection.execute(sa.text(HELD), {"after": at})
    where = sa.text("paused AND ended_at IS NULL")
    op.create_index("runs_paused", "runs", ["id"], sqlite_where=where, postgresql_where=where)

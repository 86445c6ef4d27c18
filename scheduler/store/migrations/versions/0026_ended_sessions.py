"""Sessions of the admin page that were logged out before their time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "ended_sessions",
        sa.Column("session_id", sa.Text(), nullable=False),
        sa.Column("ends_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("session_id", name="ended_sessions_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("ended_sessions_by_end", "ended_sessions", ["ends_at"])

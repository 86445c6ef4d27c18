"""A segment of an audit chain knows the time of its oldest event; earlier segments know none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0055"
down_revision = "0054"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.add_column("audit_segments", sa.Column("oldest_at", INSTANT, nullable=True))

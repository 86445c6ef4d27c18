"""A pool knows since when it has its limit, from which debt of a budget counts; older rows know their last change."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0056"
down_revision = "0055"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.add_column("pools", sa.Column("limit_set_at", INSTANT, nullable=True))

"""A task knows the template of its keys, and a run the occurrence that it belongs to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0046"
down_revision = "0045"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("key_template", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("occurrence", INSTANT, nullable=True))

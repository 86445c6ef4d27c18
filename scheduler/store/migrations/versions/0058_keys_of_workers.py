"""A worker reports by which keys it reads secrets; one of an older version reports none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0058"
down_revision = "0057"
branch_labels = None
depends_on = None

STRINGS = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.add_column("workers", sa.Column("key_ids", STRINGS, nullable=False, server_default="[]"))

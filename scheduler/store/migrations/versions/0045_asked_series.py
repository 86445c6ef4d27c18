"""Tasks keep what they ask, so that each run of a recurring one asks again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

JSON = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("asks", JSON, nullable=True))

"""The schema says which older versions of Duetime may continue with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("duetime_version", sa.Column("compatible_from", sa.String(32), nullable=True))

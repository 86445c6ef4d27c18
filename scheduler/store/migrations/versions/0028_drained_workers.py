"""A worker is told to drain by its row; older code leaves the column alone."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("drain", sa.Text(), nullable=True))

"""A run knows which one it does again, and so has its idempotency key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("repeats", sa.Text(), nullable=True))

"""Count the threads that a worker has lost to handlers that do not stop."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("workers", sa.Column("lost_threads", sa.Integer(), nullable=False, server_default="0"))

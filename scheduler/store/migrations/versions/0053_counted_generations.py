"""A chain counts its generations, also those that were left out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0053"
down_revision = "0052"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("chains", sa.Column("generation", sa.Integer(), nullable=False, server_default="1"))
    op.execute("UPDATE chains SET generation = number")

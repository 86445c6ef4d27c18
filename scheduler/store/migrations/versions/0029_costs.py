"""Use of a pool has its cost; older code leaves the column alone, and what it settles has none."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("usage", sa.Column("cost", sa.BigInteger(), nullable=True))
    costly = sa.text("cost IS NOT NULL")
    op.create_index("usage_by_cost", "usage", ["tenant", "at"], sqlite_where=costly, postgresql_where=costly)

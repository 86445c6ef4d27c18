"""Tasks come after others. Older code leaves them alone, and newer code follows what that ends."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.add_column("tasks", sa.Column("followed", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "dependencies",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("upstream_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("after_failure", sa.String(), nullable=False),
        sa.Column("closed_at", INSTANT, nullable=True),
        sa.Column("outcome", sa.String(), nullable=True),
        sa.Column("ended_run", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("task_id", "upstream_id", name="dependencies_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("dependencies_by_upstream", "dependencies", ["upstream_id", "task_id"])
    waiting = sa.text("closed_at IS NULL")
    op.create_index(
        "dependencies_open", "dependencies", ["upstream_id"], sqlite_where=waiting, postgresql_where=waiting
    )

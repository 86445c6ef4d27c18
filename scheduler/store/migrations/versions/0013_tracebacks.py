"""Attempts that fail by an exception keep its traceback."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tracebacks",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "attempt", name="tracebacks_pk"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="tracebacks_run_id_fk"),
    )

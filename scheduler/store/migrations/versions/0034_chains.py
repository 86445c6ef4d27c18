"""Chains: tasks of one call that know their step, what an upstream's result has to be, and chains that recur."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "chains",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text(), nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("repeat", sa.Text(), nullable=True),
        sa.Column("anchor", INSTANT, nullable=True),
        sa.Column("until", INSTANT, nullable=True),
        sa.Column("max_runs", sa.Integer(), nullable=True),
        sa.Column("due_at", INSTANT, nullable=True),
        sa.Column("number", sa.Integer(), nullable=False, server_default="1"),
        sa.PrimaryKeyConstraint("id", name="chains_pk"),
    )
    op.create_table(
        "chain_steps",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("chain_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="chain_steps_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("chain_steps_by_chain", "chain_steps", ["chain_id", "place"])
    op.add_column("dependencies", sa.Column("valid_output", JSON, nullable=True))
    op.add_column("dependencies", sa.Column("mismatch", sa.Text(), nullable=True))

"""Hash chains over the events and audit entries of each tenant."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "audit_segments",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("first", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("sealed_at", INSTANT, nullable=False),
        sa.Column("entries", sa.LargeBinary(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.Column("previous", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "number", name="audit_segments_pk"),
    )
    op.create_table(
        "audit_heads",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("segments", sa.Integer(), nullable=False),
        sa.Column("entries", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.PrimaryKeyConstraint("tenant", name="audit_heads_pk"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "audit_progress",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        *(
            sa.Column(name, sa.BigInteger(), nullable=False)
            for name in ("event_tx", "event_id", "entry_tx", "entry_id")
        ),
        sa.PrimaryKeyConstraint("id", name="audit_progress_pk"),
        sa.CheckConstraint("id = 1", name=op.f("audit_progress_single")),
    )

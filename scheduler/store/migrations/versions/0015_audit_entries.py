"""The audit log: acts of callers that are no events of tasks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    postgres = op.get_bind().dialect.name == "postgresql"
    number = sa.text("((pg_current_xact_id())::text)::bigint") if postgres else sa.text("NULL")
    op.create_table(
        "audit_entries",
        sa.Column("id", SERIAL, nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("actor_tenant", sa.Text()),
        sa.Column("via", sa.Text()),
        sa.Column("subject", sa.Text()),
        sa.Column("reason", sa.Text()),
        sa.Column("detail", JSON),
        sa.Column("tx", sa.BigInteger(), server_default=number),
        sa.PrimaryKeyConstraint("id", name="audit_entries_pk"),
        sqlite_autoincrement=True,
    )
    op.create_index("audit_entries_by_time", "audit_entries", ["tenant", "at", "id"])
    known = sa.text("tx IS NOT NULL")
    op.create_index("audit_entries_by_tx", "audit_entries", ["tx", "id"], sqlite_where=known, postgresql_where=known)

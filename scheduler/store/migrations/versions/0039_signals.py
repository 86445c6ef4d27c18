"""Events are received, and tasks wait for them. Older code lets such tasks go: use events when all are upgraded."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "signals",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("data", JSON, nullable=False),
        sa.Column("at", INSTANT, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("freed", sa.Integer(), nullable=False),
        sa.Column("matched", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name="signals_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("signals_by_name", "signals", ["tenant", "name", "at"])
    op.create_index("signals_by_time", "signals", ["tenant", "at"])
    op.create_index("signals_by_age", "signals", ["at"])
    op.create_table(
        "signal_waits",
        sa.Column("waiter_id", sa.Text(), nullable=False),
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("wanted", JSON, nullable=False),
        sa.Column("since", INSTANT, nullable=False),
        sa.Column("until", INSTANT, nullable=False),
        sa.Column("on_timeout", sa.String(), nullable=False),
        sa.Column("at_once", sa.Boolean(), nullable=False),
        sa.Column("closed_at", INSTANT, nullable=True),
        sa.Column("signal_id", sa.Text(), nullable=True),
        sa.Column("signal_at", INSTANT, nullable=True),
        sa.Column("data", JSON, nullable=True),
        sa.PrimaryKeyConstraint("waiter_id", name="signal_waits_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("signal_waits_by_task", "signal_waits", ["task_id"])
    open_ones = sa.text("closed_at IS NULL")
    for name, columns in (
        ("signal_waits_open", ["tenant", "name", "waiter_id"]),
        ("signal_waits_until", ["until"]),
    ):
        op.create_index(name, "signal_waits", columns, sqlite_where=open_ones, postgresql_where=open_ones)

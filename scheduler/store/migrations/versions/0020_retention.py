"""Old tasks can be deleted: no table without an index of its tasks refers to them, and cut histories say where."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from duetime.scheduler.store.migrations import rebuild

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
DROPPED = ("task_labels", "idempotency_keys", "dead_letters", "inbox", "deliveries")


def upgrade() -> None:
    connection = op.get_bind()
    for table in DROPPED:
        name = f"{table}_task_id_fk"
        if connection.dialect.name == "sqlite":
            rebuild.drop_constraints(connection, table, (name,))
        else:
            op.drop_constraint(name, table)
    op.add_column("tasks", sa.Column("history_from", sa.Integer(), nullable=True))
    op.create_table(
        "retention_sweeps",
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("finished_at", INSTANT, nullable=False),
        sa.Column("deleted", sa.BigInteger(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("kind", name="retention_sweeps_pk"),
        sqlite_with_rowid=False,
    )

"""Tasks say which outcomes their user is told of; the inbox keeps the others apart."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from duetime.scheduler.store.schema.types import Truth

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("notify", sa.String(), nullable=False, server_default="always"))
    op.add_column("inbox", sa.Column("quiet", Truth(), nullable=False, server_default=sa.false()))
    quiet = sa.text("quiet")
    op.create_index(
        "inbox_quiet", "inbox", ["tenant", "user", "created_at"], sqlite_where=quiet, postgresql_where=quiet
    )

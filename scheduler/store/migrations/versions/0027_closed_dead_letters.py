"""Dead letters say when they were closed, and which run a replay made."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from duetime.scheduler.store.schema.types import Instant

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dead_letters", sa.Column("closed_at", Instant(), nullable=True))
    op.add_column("dead_letters", sa.Column("replayed_as", sa.Text(), nullable=True))
    op.add_column("dead_letters", sa.Column("replay_number", sa.Integer(), nullable=True))
    replayed = sa.text("replayed_as IS NOT NULL")
    op.create_index(
        "dead_letters_by_replay",
        "dead_letters",
        ["replayed_as"],
        sqlite_where=replayed,
        postgresql_where=replayed,
    )

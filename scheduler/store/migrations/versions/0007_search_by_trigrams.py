"""Titles and reasons are searched by trigrams, on PostgreSQL."""

from __future__ import annotations

from alembic import op
from duetime.scheduler.store.migrations import trigrams

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if not op.get_context().opts["held_tables"]:  # else they are built when the upgrade is over, while others write
        trigrams.create(op.get_bind())

"""Runs of paused tasks leave the indexes of the timers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

WAKE = "wake_at IS NOT NULL AND NOT paused"
DROP = "drop_at IS NOT NULL AND ended_at IS NULL AND NOT paused"


def upgrade() -> None:
    op.add_column("runs", sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.drop_index("runs_wake", "runs")
    op.drop_index("runs_drop", "runs")
    op.execute(
        "UPDATE runs SET paused = (1 = 1) WHERE ended_at IS NULL AND task_id IN (SELECT id FROM tasks WHERE paused)"
    )
    _index("runs_wake", "wake_at", WAKE)
    _index("runs_drop", "drop_at", DROP)


def _index(name: str, column: str, where: str) -> None:
    op.create_index(name, "runs", [column], sqlite_where=sa.text(where), postgresql_where=sa.text(where))

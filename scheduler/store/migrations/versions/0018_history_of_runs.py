"""Runs of one phase have an order by time, for the history of runs."""

from __future__ import annotations

from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.drop_index("runs_by_phase", "runs")
    op.create_index("runs_by_phase", "runs", ["tenant", "current", "phase", "listed_at", "id"])

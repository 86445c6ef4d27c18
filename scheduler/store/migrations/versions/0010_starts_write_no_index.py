"""No index of runs names the state, so that a start writes none; running runs are found by their open attempts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from duetime.scheduler.store.migrations import rebuild

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

PHASE = "phase VARCHAR GENERATED ALWAYS AS (CASE state WHEN 'running' THEN 'ready' ELSE state END) STORED"


def upgrade() -> None:
    for name in ("runs_by_state", "runs_ready", "runs_running"):
        op.drop_index(name, "runs")
    connection = op.get_bind()
    if connection.dialect.name == "sqlite":
        rebuild.rebuild(connection, "runs", lambda made: rebuild.with_column(made, PHASE))
    else:
        op.execute("ALTER TABLE runs SET (fillfactor = 70)")
        op.execute(f"ALTER TABLE runs ADD COLUMN {PHASE}")
    op.create_index("runs_by_phase", "runs", ["tenant", "current", "phase"])
    _partial("runs_active", "runs", "id", "wake_at IS NULL AND ended_at IS NULL")
    _partial("attempts_open", "attempts", "run_id", "ended_at IS NULL")


def _partial(name: str, table: str, column: str, where: str) -> None:
    op.create_index(name, table, [column], sqlite_where=sa.text(where), postgresql_where=sa.text(where))

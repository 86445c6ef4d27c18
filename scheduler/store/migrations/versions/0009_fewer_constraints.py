"""Runs and events have no CHECKs, and events no foreign keys; `duetime doctor --deep` examines what they guarded."""

from __future__ import annotations

from alembic import op
from duetime.scheduler.store.migrations import rebuild

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

DROPPED = {
    "runs": ("runs_state", "runs_wake_at"),
    "events": ("events_legal_move", "events_task_id_fk", "events_run_id_fk"),
}


def upgrade() -> None:
    connection = op.get_bind()
    for table, names in DROPPED.items():
        if connection.dialect.name == "sqlite":
            rebuild.drop_constraints(connection, table, names)
        else:
            for name in names:
                op.drop_constraint(name, table)

"""Tasks that a run spawned stay known by it after their generation of a chain, whose runs are found without history.

Older code has neither, and leaves both as they are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0057"
down_revision = "0056"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "spawned_tasks",
        sa.Column("task_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", name="spawned_tasks_pk"),
        sqlite_with_rowid=False,
    )
    op.create_index("spawned_tasks_by_run", "spawned_tasks", ["run_id"])
    op.create_index("runs_by_number", "runs", ["task_id", "number"])
    op.drop_index("runs_beside", "runs")
    where = sa.text("NOT current AND ended_at IS NULL")
    # Two columns are compared, so SQLite takes it and not another index that begins with the task, which has all runs
    op.create_index("runs_side", "runs", ["task_id", "ended_at"], sqlite_where=where, postgresql_where=where)

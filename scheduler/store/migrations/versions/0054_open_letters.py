"""Open dead letters, and those of a task, are found by an index among all that were ever closed."""

from __future__ import annotations

from alembic import op

revision = "0054"
down_revision = "0053"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("dead_letters_by_state", "dead_letters", ["tenant", "closed_at", "at", "run_id"])
    op.create_index("dead_letters_by_task", "dead_letters", ["task_id", "tenant", "closed_at"])

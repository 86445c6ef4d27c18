"""Tasks say what their results have to meet, and what follows from a failure."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from duetime.scheduler.store.schema.json_types import JsonObject

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None


def upgrade() -> None:
    for name in ("expect", "on_failure"):
        op.add_column("tasks", sa.Column(name, JsonObject(), nullable=False, server_default="{}"))

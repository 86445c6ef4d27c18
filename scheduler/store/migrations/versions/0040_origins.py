"""Tasks know the conversation that asked for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from duetime.scheduler.store.schema.json_types import JsonObject

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tasks", sa.Column("origin", JsonObject(), nullable=False, server_default="{}"))

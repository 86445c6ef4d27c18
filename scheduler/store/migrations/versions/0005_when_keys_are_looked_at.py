"""When an idempotency key has to be looked at, by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
UPDATES = {
    "postgresql": "UPDATE idempotency_keys SET look_at = coalesce(expires_at, (SELECT created_at + interval '30 days'"
    " FROM tasks WHERE tasks.id = idempotency_keys.task_id))",
    "sqlite": "UPDATE idempotency_keys SET look_at = coalesce(expires_at, (SELECT created_at + 2592000000000"
    " FROM tasks WHERE tasks.id = idempotency_keys.task_id))",
}
"""A key without a time of its own holds for 30 days after its task's end, so at least so long after its creation."""


def upgrade() -> None:
    op.add_column("idempotency_keys", sa.Column("look_at", INSTANT, nullable=True))
    op.execute(UPDATES[op.get_context().dialect.name])
    op.drop_index("idempotency_keys_expiry", "idempotency_keys")
    op.create_index("idempotency_keys_by_look", "idempotency_keys", ["look_at"])

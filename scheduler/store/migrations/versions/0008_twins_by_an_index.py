"""The look for a task of the same owner, title and time has an index."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

OPEN = "SELECT runs.id, tasks.tenant, tasks.owner, tasks.title_folded FROM runs JOIN tasks ON tasks.id = runs.task_id"
PAGE = sa.text(f"{OPEN} WHERE runs.ended_at IS NULL AND runs.id > :after ORDER BY runs.id LIMIT 5000")
HASH = sa.text("UPDATE runs SET twin_hash = :twin_hash WHERE id = :id")


def upgrade() -> None:
    op.add_column("runs", sa.Column("twin_hash", sa.BigInteger(), nullable=True))
    connection, after = op.get_bind(), ""
    while found := connection.execute(PAGE, {"after": after}).all():
        connection.execute(HASH, [{"id": row[0], "twin_hash": twin_hash(row[1:])} for row in found])
        after = found[-1][0]
    op.create_index("runs_by_twin", "runs", ["twin_hash", "scheduled_for"])


def twin_hash(parts: Sequence[Any]) -> int:
    text = "\n".join(parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), signed=True)

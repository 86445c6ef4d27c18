"""Deadlines, tiers and needs; pools, usage, workers and estimates."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")


def upgrade() -> None:
    _add_to_tasks()
    _add_to_runs()
    _pools_and_usage()
    _workers_and_estimates()


def _column(name: str, kind: Any, *, null: bool = False, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=null, **options)


def _index(name: str, table: str, column: str, where: str) -> None:
    op.create_index(name, table, [column], sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _add_to_tasks() -> None:
    """Add what existing tasks have by default: no row is rewritten for a constant default."""
    for column in (
        _column("priority", sa.String(), server_default="normal"),
        _column("deadline", sa.Text(), null=True),
        _column("deadline_after", sa.BigInteger(), null=True),
        _column("deadline_type", sa.String(), server_default="soft"),
        _column("penalty", sa.String(), server_default="none"),
        _column("estimate", sa.BigInteger(), null=True),
        _column("needs", JSON, server_default="{}"),
    ):
        op.add_column("tasks", column)


def _add_to_runs() -> None:
    for column in (
        _column("deadline", INSTANT, null=True),
        _column("drop_at", INSTANT, null=True),
        _column("reserved", JSON, null=True),
        _column("token", sa.Text(), null=True),
    ):
        op.add_column("runs", column)
    op.drop_index("runs_by_state", "runs")  # with the state first, SQLite prefers it to the partial ones
    op.create_index("runs_by_state", "runs", ["tenant", "current", "state"])
    _index("runs_drop", "runs", "drop_at", "drop_at IS NOT NULL AND ended_at IS NULL")
    _index("runs_ready", "runs", "id", "state = 'ready'")
    _index("runs_running", "runs", "id", "state = 'running'")


def _pools_and_usage() -> None:
    op.create_table(
        "pools",
        _column("name", sa.Text()),
        _column("spec", JSON, null=True),
        _column("declared", JSON, null=True),
        _column("revision", sa.Integer()),
        _column("updated_at", INSTANT),
        _column("updated_by", sa.Text()),
        sa.PrimaryKeyConstraint("name", name="pools_pk"),
    )
    op.create_table(
        "usage",
        _column("run_id", sa.Text()),
        _column("attempt", sa.Integer(), autoincrement=False),
        _column("pool", sa.Text()),
        _column("tenant", sa.Text()),
        _column("units", sa.Double()),
        _column("at", INSTANT),
        sa.PrimaryKeyConstraint("run_id", "attempt", "pool", name="usage_pk"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="usage_run_id_fk"),
        sqlite_with_rowid=False,
    )
    op.create_index("usage_by_pool", "usage", ["pool", "at"])


def _workers_and_estimates() -> None:
    op.create_table(
        "workers",
        _column("id", sa.Text()),
        _column("host", sa.Text()),
        _column("pid", sa.Integer()),
        _column("threads", sa.Integer()),
        _column("started_at", INSTANT),
        _column("state", sa.Text()),
        _column("running", sa.Integer()),
        _column("seen_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name="workers_pk"),
    )
    op.create_table(
        "estimates",
        _column("tenant", sa.Text()),
        _column("action", sa.Text()),
        _column("histogram", JSON),
        _column("weight", sa.Double()),
        _column("updated_at", INSTANT),
        sa.PrimaryKeyConstraint("tenant", "action", name="estimates_pk"),
        sqlite_with_rowid=False,
    )

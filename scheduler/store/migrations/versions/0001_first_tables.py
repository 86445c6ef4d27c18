"""The first tables."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

INSTANT = sa.BigInteger().with_variant(sa.TIMESTAMP(timezone=True), "postgresql")
JSON = sa.Text().with_variant(JSONB(), "postgresql")
SERIAL = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

STATE = (
    "CASE WHEN ended_at IS NULL THEN state IN ('ready', 'retrying', 'running', 'scheduled', 'suspended', 'waiting')"
    " ELSE state IN ('cancelled', 'expired', 'failed', 'skipped', 'succeeded') END"
)
WAKE = "wake_at IS NULL OR state IN ('retrying', 'scheduled', 'suspended')"
LEGAL_MOVE = (
    "CASE WHEN from_state IS NULL THEN to_state IS NULL OR to_state IN ('scheduled', 'waiting')"
    " WHEN to_state IS NULL THEN false ELSE CASE from_state"
    " WHEN 'scheduled' THEN to_state IN ('cancelled', 'expired', 'ready', 'skipped', 'waiting')"
    " WHEN 'waiting' THEN to_state IN ('cancelled', 'expired', 'ready', 'scheduled', 'skipped')"
    " WHEN 'ready' THEN to_state IN ('cancelled', 'expired', 'running', 'scheduled', 'skipped')"
    " WHEN 'running' THEN to_state IN ('cancelled', 'expired', 'failed', 'retrying', 'succeeded', 'suspended')"
    " WHEN 'suspended' THEN to_state IN ('cancelled', 'expired', 'ready')"
    " WHEN 'retrying' THEN to_state IN ('cancelled', 'expired', 'failed', 'ready')"
    " ELSE false END END"
)


def upgrade() -> None:
    _tasks()
    _runs()
    _attempts_and_events()
    _keys_and_letters()
    _told()
    _runner()


def _text(name: str, *, null: bool = False, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Text(), nullable=null, **options)


def _word(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sa.String(), nullable=null)


def _number(name: str, *, null: bool = False, **options: Any) -> sa.Column[Any]:
    return sa.Column(name, sa.Integer(), nullable=null, **options)


def _flag(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.Boolean(), nullable=False)


def _at(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, INSTANT, nullable=null)


def _json(name: str, *, null: bool = False) -> sa.Column[Any]:
    return sa.Column(name, JSON, nullable=null)


def _key(table: str, *columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint(*columns, name=f"{table}_pk")


def _refers(table: str, column: str, to: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [to], name=f"{table}_{column}_fk")


def _index(name: str, table: str, *columns: str, unique: bool = False, where: str | None = None) -> None:
    partial: dict[str, Any] = {"sqlite_where": sa.text(where), "postgresql_where": sa.text(where)} if where else {}
    op.create_index(name, table, list(columns), unique=unique, **partial)


def _tasks() -> None:
    op.create_table(
        "tasks",
        _text("id"),
        _text("tenant"),
        _text("owner"),
        _text("title"),
        _text("action"),
        _json("payload"),
        _text("timezone"),
        _text("when"),
        _text("repeat", null=True),
        _at("anchor"),
        _at("until", null=True),
        _number("max_runs", null=True),
        _flag("paused"),
        _json("retry"),
        _json("deliver_to"),
        _json("labels"),
        _number("revision"),
        _at("created_at"),
        _at("updated_at"),
        _text("title_folded"),
        _key("tasks", "id"),
    )
    _index("tasks_by_age", "tasks", "tenant", "created_at")
    op.create_table(
        "task_labels",
        _text("tenant"),
        _text("label"),
        _text("task_id"),
        _key("task_labels", "tenant", "label", "task_id"),
        _refers("task_labels", "task_id", "tasks.id"),
        sqlite_with_rowid=False,
    )


def _runs() -> None:
    op.create_table(
        "runs",
        _text("id"),
        _text("task_id"),
        _text("tenant"),
        _at("scheduled_for"),
        _word("state"),
        _number("generation"),
        _number("number"),
        _flag("current"),
        _at("wake_at", null=True),
        _at("first_ready_at", null=True),
        _at("started_at", null=True),
        _at("ended_at", null=True),
        _number("attempt"),
        _number("failures"),
        _number("crashes"),
        _number("missed"),
        _flag("cancel_requested"),
        _json("progress", null=True),
        _json("checkpoint", null=True),
        _text("summary", null=True),
        _json("result", null=True),
        _text("error", null=True),
        _at("slot", null=True),
        _at("listed_at"),
        _text("worker", null=True),
        _number("epoch", null=True),
        _at("lease_until", null=True),
        _key("runs", "id"),
        sa.CheckConstraint(STATE, name=op.f("runs_state")),
        sa.CheckConstraint(WAKE, name=op.f("runs_wake_at")),
        _refers("runs", "task_id", "tasks.id"),
    )
    _index("runs_by_occurrence", "runs", "task_id", "scheduled_for", "generation", unique=True)
    _index("runs_by_state", "runs", "state", "tenant", "current")
    _index("runs_current", "runs", "task_id", unique=True, where="current")
    _index("runs_beside", "runs", "task_id", where="NOT current AND ended_at IS NULL")
    _index("runs_wake", "runs", "wake_at", where="wake_at IS NOT NULL")
    _index("runs_open", "runs", "tenant", "listed_at", "task_id", where="current AND ended_at IS NULL")
    _index("runs_ended", "runs", "tenant", "listed_at", "task_id", where="current AND ended_at IS NOT NULL")


def _attempts_and_events() -> None:
    op.create_table(
        "attempts",
        _text("run_id"),
        _number("number", autoincrement=False),
        _text("worker"),
        _at("started_at"),
        _at("ended_at", null=True),
        _text("outcome", null=True),
        _text("reason", null=True),
        _key("attempts", "run_id", "number"),
        _refers("attempts", "run_id", "runs.id"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "events",
        sa.Column("id", SERIAL, nullable=False),
        _text("tenant"),
        _text("task_id"),
        _text("run_id", null=True),
        _number("seq"),
        _at("at"),
        _word("kind"),
        _text("actor"),
        _text("reason", null=True),
        _word("from_state", null=True),
        _word("to_state", null=True),
        _number("attempt", null=True),
        _json("before", null=True),
        _json("after", null=True),
        _number("revision", null=True),
        sa.Column("tx", sa.BigInteger(), server_default=_this_transaction(), nullable=True),
        _key("events", "id"),
        sa.CheckConstraint(LEGAL_MOVE, name=op.f("events_legal_move")),
        _refers("events", "task_id", "tasks.id"),
        _refers("events", "run_id", "runs.id"),
        sqlite_autoincrement=True,
    )
    _index("events_by_task", "events", "task_id", "seq", unique=True)
    _index("events_by_time", "events", "tenant", "at", "id")
    _index("events_by_tx", "events", "tx", "id", where="tx IS NOT NULL")


def _this_transaction() -> sa.TextClause:
    on_postgres = op.get_context().dialect.name == "postgresql"
    return sa.text("((pg_current_xact_id())::text)::bigint" if on_postgres else "NULL")


def _keys_and_letters() -> None:
    op.create_table(
        "idempotency_keys",
        _text("tenant"),
        _text("key"),
        _text("task_id"),
        _json("fingerprint"),
        _at("expires_at", null=True),
        _flag("derived"),
        _key("idempotency_keys", "tenant", "key"),
        _refers("idempotency_keys", "task_id", "tasks.id"),
        sqlite_with_rowid=False,
    )
    _index("idempotency_keys_expiry", "idempotency_keys", "expires_at", where="expires_at IS NOT NULL")
    op.create_table(
        "dead_letters",
        _text("run_id"),
        _text("task_id"),
        _text("tenant"),
        _at("at"),
        _text("reason"),
        _json("payload"),
        _key("dead_letters", "run_id"),
        _refers("dead_letters", "run_id", "runs.id"),
        _refers("dead_letters", "task_id", "tasks.id"),
    )
    _index("dead_letters_by_time", "dead_letters", "tenant", "at", "run_id")


def _told() -> None:
    op.create_table(
        "inbox",
        _text("id"),
        _text("tenant"),
        _text("user"),
        _text("task_id"),
        _text("run_id"),
        _text("title"),
        _text("text"),
        _word("state"),
        _at("created_at"),
        _at("read_at", null=True),
        _at("mentioned_at", null=True),
        _key("inbox", "id"),
        _refers("inbox", "task_id", "tasks.id"),
        _refers("inbox", "run_id", "runs.id"),
        sa.UniqueConstraint("run_id", name=op.f("inbox_run_id_key")),
    )
    _index("inbox_by_time", "inbox", "tenant", "user", "created_at", "id")
    _index("inbox_unread", "inbox", "tenant", "user", "created_at", "id", where="read_at IS NULL")
    op.create_table(
        "deliveries",
        _text("id"),
        _text("tenant"),
        _text("task_id"),
        _text("run_id"),
        _text("channel"),
        _word("state"),
        _number("attempts"),
        _at("next_at", null=True),
        _at("delivered_at", null=True),
        _text("error", null=True),
        _key("deliveries", "id"),
        _refers("deliveries", "task_id", "tasks.id"),
        _refers("deliveries", "run_id", "inbox.run_id"),
    )
    _index("deliveries_by_run", "deliveries", "run_id", "channel", unique=True)
    _index("deliveries_due", "deliveries", "next_at", where="next_at IS NOT NULL")


def _runner() -> None:
    op.create_table(
        "runner",
        _number("id", autoincrement=False),
        _number("epoch"),
        _number("pid"),
        _text("endpoint"),
        _text("token"),
        _at("started_at"),
        _key("runner", "id"),
        sa.CheckConstraint("id = 1", name=op.f("runner_single")),
    )

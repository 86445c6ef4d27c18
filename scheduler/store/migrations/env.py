"""Alembic's entry point: `run` supplies the connection, open and locked."""

from __future__ import annotations

from alembic import context
from duetime.scheduler.store.migrations import online_indexes  # noqa: F401 - Alembic finds what it defines
from duetime.scheduler.store.migrations.upgrade import version
from duetime.scheduler.store.schema.base import Base
from sqlalchemy import inspect

connection = context.config.attributes["connection"]
reached = context.config.attributes.get("reached", lambda _version: None)
context.configure(
    connection=connection,
    target_metadata=Base.metadata,
    version_table=version.name,
    on_version_apply=lambda step, **_: reached(step.up_revision_id),
    render_as_batch=True,  # SQLite alters a table by copying it
    held_tables=frozenset(inspect(connection).get_table_names()),
)
with context.begin_transaction():
    context.run_migrations()

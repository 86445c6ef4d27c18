"""Locks and checks that make a lost update impossible.

The lock of a task's row is the lock of all its runs and events. SQLite needs none: a write transaction is alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from duetime.scheduler.errors import IllegalMove
from duetime.scheduler.store.models import runs, tasks
from sqlalchemy import ARRAY, ColumnElement, Connection, Text, any_, bindparam, select


def among(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the column is one of `run_ids`, on PostgreSQL: an IN would be planned anew for each number of them."""
    return column == any_(bindparam("run_ids", type_=ARRAY(Text())))


_THEIRS = select(runs.c.task_id).where(among(runs.c.id))
_LOCK = select(tasks.c.id).where(tasks.c.id.in_(_THEIRS)).order_by(tasks.c.id).with_for_update()


def lock_tasks_of(connection: Connection, run_ids: Sequence[str]) -> None:
    """Wait for the tasks of these runs, always in the same order; what is read after this is the newest."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"run_ids": list(run_ids)})


def exactly(expected: int, changed: int) -> None:
    """Check that an update found every row in the state it was read in; otherwise the transaction must not stand."""
    if changed != expected:
        raise IllegalMove(f"{expected} runs were to move, {changed} did: another transaction moved them meanwhile")

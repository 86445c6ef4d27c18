"""Locks and checks that make a lost update impossible.

The lock of a task's row is the lock of all its runs and events. SQLite needs none: a write transaction is alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from duetime.scheduler.errors import IllegalMove, RunnerReplaced
from duetime.scheduler.store.schema.tables import runner, runs, tasks
from sqlalchemy import ARRAY, ColumnElement, Connection, Text, any_, bindparam, select


def among(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the column is one of `run_ids`, on PostgreSQL: an IN would be planned anew for each number of them."""
    return column == any_(bindparam("run_ids", type_=ARRAY(Text())))


_THEIRS = select(runs.c.task_id).where(among(runs.c.id))
_LOCK = select(tasks.c.id).where(tasks.c.id.in_(_THEIRS)).order_by(tasks.c.id).with_for_update()
_NEWEST_EPOCH = select(runner.c.epoch).with_for_update(read=True)


def lock_tasks_of(connection: Connection, run_ids: Sequence[str]) -> None:
    """Wait for the tasks of these runs, always in the same order; what is read after this is the newest."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"run_ids": list(run_ids)})


def exactly(expected: int, changed: int) -> None:
    """Check that an update found every row in the state it was read in; otherwise the transaction must not stand."""
    if changed != expected:
        raise IllegalMove(f"{expected} runs were to move, {changed} did: another transaction moved them meanwhile")


def check_epoch(connection: Connection, epoch: int | None) -> None:
    """Raise `RunnerReplaced` unless `epoch` is the newest, and stays it until the commit; None needs no runner."""
    if epoch is None:
        return
    newest = connection.execute(_NEWEST_EPOCH).scalar() or 0
    if newest != epoch:
        raise RunnerReplaced(epoch, newest)

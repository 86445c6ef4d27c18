"""Locks and checks against lost updates.

The lock of a task's row covers all its runs and events. SQLite needs none: it has one write transaction at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from duetime.scheduler.errors import IllegalMove, RunnerReplaced
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.pools import runner
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from sqlalchemy import ARRAY, BigInteger, ColumnElement, Connection, Text, any_, bindparam, func, select


def among(column: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether the column is one of `run_ids`, on PostgreSQL, where an IN would need a plan for each length."""
    return column == any_(bindparam("run_ids", type_=ARRAY(Text())))


_LOCK = (
    select(tasks.c.id)
    .where(tasks.c.id == any_(bindparam("task_ids", type_=ARRAY(Text()))))
    .order_by(tasks.c.id)
    .with_for_update()
)
_TURN = select(func.pg_advisory_xact_lock(bindparam("turn", type_=BigInteger()))).scalar_subquery()
_LOCK_IN_TURN = _LOCK.where(_TURN.is_not(None))
_THEIRS = select(runs.c.task_id).where(among(runs.c.id))
_LOCK_THEIRS = select(tasks.c.id).where(tasks.c.id.in_(_THEIRS)).order_by(tasks.c.id).with_for_update()
_NEWEST_EPOCH = select(runner.c.epoch).with_for_update(read=True)


def lock_tasks(connection: Connection, task_ids: Iterable[str]) -> None:
    """Lock these tasks, always in the same order; later reads see the newest rows."""
    dialect_of(connection).lock_rows(connection, _LOCK, {"task_ids": sorted(set(task_ids))})


def lock_tasks_in_turn(connection: Connection, turn: int, task_ids: Iterable[str]) -> None:
    """Lock these tasks like `lock_tasks`, but first wait until no other transaction has this turn.

    It is one statement. The server takes the turn before it looks for rows, and locks these as they are behind it.
    """
    dialect_of(connection).lock_rows(connection, _LOCK_IN_TURN, {"turn": turn, "task_ids": sorted(set(task_ids))})


def lock_tasks_of(connection: Connection, run_ids: Sequence[str]) -> None:
    """Lock the tasks of these runs, always in the same order; later reads see the newest rows."""
    dialect_of(connection).lock_rows(connection, _LOCK_THEIRS, {"run_ids": list(run_ids)})


def exactly(expected: int, changed: int) -> None:
    """Raise, which rolls the transaction back, unless an update changed the expected number of rows."""
    if changed != expected:
        raise IllegalMove(f"{expected} runs were to move, {changed} did: another transaction moved them first")


def check_epoch(connection: Connection, epoch: int | None) -> None:
    """Raise `RunnerReplaced` unless `epoch` is the newest, and lock it until the commit; None checks nothing."""
    if epoch is None:
        return
    newest = connection.execute(_NEWEST_EPOCH).scalar() or 0
    if newest != epoch:
        raise RunnerReplaced(epoch, newest)

"""Reads the links of a task as they stand before a change; rows have the form in which an event keeps them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.store.schema.rows import in_json
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.chains import chain_steps, dependencies
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.signals import wait_rows
from duetime.scheduler.store.statements.signals.wait_rows import WAITER_IDS
from duetime.scheduler.task import Run
from sqlalchemy import Connection, bindparam, exists, select

_TIMES = ("scheduled_for", "deadline", "drop_at", "first_ready_at")
"""Fields of a run that change once more where the new links let it go in the transaction of their change."""

_LINKS = select(dependencies).where(dependencies.c.task_id == bindparam("of_task")).order_by(dependencies.c.upstream_id)
_WAITS = select(signal_waits).where(signal_waits.c.waiter_id.in_(WAITER_IDS)).order_by(signal_waits.c.waiter_id)
_own = chain_steps.alias("own")
_STEPS = (
    select(chain_steps.c.task_id, chain_steps.c.name)
    .join_from(chain_steps, _own, _own.c.chain_id == chain_steps.c.chain_id)
    .where(_own.c.task_id == bindparam("of_task"))
)
_HELD = select(
    exists().where(dependencies.c.task_id == bindparam("of_task")).label("after"),
    exists().where(signal_waits.c.waiter_id.in_(WAITER_IDS)).label("waits"),
    exists().where(approvals.c.run_id == bindparam("of_run")).label("asked"),
    exists().where(chain_steps.c.task_id == bindparam("of_task")).label("is_step"),
    exists().where(dependencies.c.upstream_id == bindparam("of_task")).label("is_followed"),
)
"""Looks for what a change of links reads. Most tasks have nothing; for one that has, further statements follow."""


Kept = Mapping[str, Any]
"""Rows of `after` and `waits` as an event keeps them, whether the run was asked for, and its times.

`run_waits` are the open waits of the run itself: an occurrence waits for an event of its own.
"""


class HeldLinks(NamedTuple):
    """The rows of what a task waits for, whether it is a step of a chain, and whether others come after it."""

    kept: Kept
    is_step: bool
    is_followed: bool


def waiter_ids(waiter_id: str) -> list[str]:
    return [waiter_id, *wait_rows.further([waiter_id])]


def read(connection: Connection, task_id: str, run: Run) -> HeldLinks:
    """Return what a task waits for, by one statement if that is nothing."""
    given = {"of_task": task_id, "of_run": run.id, "waiter_ids": [*waiter_ids(task_id), *waiter_ids(run.id)]}
    has = connection.execute(_HELD, given).one()
    after = connection.execute(_LINKS, {"of_task": task_id}).all() if has.after else ()
    waits = waits_of(connection, task_id, run.id) if has.waits else []
    of_run = {*waiter_ids(run.id)}
    kept = {
        "after": [_to_json(row._asdict()) for row in after],
        "waits": [row for row in waits if row["waiter_id"] not in of_run],
        "run_waits": [row for row in waits if row["waiter_id"] in of_run and row["closed_at"] is None],
        "asked": bool(has.asked),
        event_log.TIMES_MEMBER: {name: in_json(getattr(run, name)) for name in _TIMES},
    }
    return HeldLinks(kept, bool(has.is_step), bool(has.is_followed))


def waits_of(connection: Connection, *waiters: str) -> list[dict[str, Any]]:
    ids = [each for waiter in waiters for each in waiter_ids(waiter)]
    waits = connection.execute(_WAITS, {"waiter_ids": ids}).all()
    return [_to_json(row._asdict()) for row in waits]


def step_names(connection: Connection, task_id: str) -> dict[str, str]:
    """Return the names of the steps of a task's chain, by their tasks."""
    return {row.task_id: row.name for row in connection.execute(_STEPS, {"of_task": task_id})}


def _to_json(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}

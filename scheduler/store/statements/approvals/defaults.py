"""Default answers of runs that continue because nobody has answered in time, or a long pause hid the question."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.events import DUETIME_ACTOR
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.task import State
from duetime.scheduler.waits.approval import ANSWER_KINDS
from sqlalchemy import Connection, Row, bindparam, exists, select, update

_STILL_OPEN = (
    select(approvals.c.run_id, approvals.c.default, approvals.c.ends_at, runs.c.tenant, runs.c.task_id)
    .add_columns(tasks.c.timezone)
    .select_from(approvals.join(runs, runs.c.id == approvals.c.run_id).join(tasks, tasks.c.id == runs.c.task_id))
    .where(approvals.c.run_id.in_(bindparam("run_ids", expanding=True)), questions.OPEN_APPROVAL)
)

_NEXT_REVISION = (
    update(tasks)
    .where(tasks.c.id == bindparam("of_task"))
    .where(exists().where(runs.c.task_id == tasks.c.id, runs.c.id == approvals.c.run_id, questions.OPEN_APPROVAL))
    .values(revision=tasks.c.revision + 1, updated_at=bindparam("at"))
)
"""A task with further questions gets a new revision, so that a click on an old card does not answer the next one."""


def unanswered(ends_at: datetime, timezone: str) -> str:
    """Return the reason of a default answer."""
    return f"nobody answered until {describe(ends_at, timezone)} {timezone}"


def give(connection: Connection, due: Sequence[Row[Any]], now: datetime) -> None:
    """Give the default answers to the open questions of those due runs that their handlers had suspended.

    Their next attempts read them; a question that stayed open would be in the inbox in place of their outcome.
    """
    resumed = [row.id for row in due if row.state is State.SUSPENDED]
    if not resumed:
        return
    for row in connection.execute(_STILL_OPEN, {"run_ids": resumed}).all():
        reason = unanswered(row.ends_at or now, row.timezone)
        questions.close(connection, [row.run_id], now, answer=row.default, by=DUETIME_ACTOR, reason=reason)
        of_run, kind = (row.tenant, row.task_id, row.run_id), ANSWER_KINDS[row.default]
        entry = event_log.entry(*of_run, now, kind=kind, actor=DUETIME_ACTOR, reason=reason)
        event_log.append(connection, [entry])
        connection.execute(_NEXT_REVISION, {"of_task": row.task_id, "at": now})

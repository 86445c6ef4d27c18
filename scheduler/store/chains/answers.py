"""Answers to the questions whether runs may go: somebody's, or the default one at the deadline."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.approvals import approval as rules
from duetime.scheduler.approvals.approval import KINDS, notice
from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.changes import UNDO_WINDOW
from duetime.scheduler.rules.series.answered import asks_when_due, rejected
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.store.chains import taken_back
from duetime.scheduler.store.schema.rows import new_run_values
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import dependants, event_log
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.task import ApprovalAnswer, Notify, Run, State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection, bindparam, false, insert, select, update

UNANSWERED = "run {} waited for an answer"
"""Why an occurrence was left out."""

_DUE = (
    select(runs.c.tenant, runs.c.task_id)
    .select_from(approvals.join(runs, runs.c.id == approvals.c.run_id).join(tasks, tasks.c.id == runs.c.task_id))
    .where(questions.OPEN, approvals.c.ends_at <= bindparam("now"), tasks.c.paused == false())
    .order_by(approvals.c.ends_at)
    .limit(bindparam("most"))
)
_JUST_ANSWERED = (
    select(approvals.c.run_id)
    .join_from(approvals, runs, runs.c.id == approvals.c.run_id)
    .where(runs.c.task_id == bindparam("of_task"), approvals.c.attempt == 0)
    .where(approvals.c.answer == bindparam("how"), approvals.c.closed_at >= bindparam("since"))
    .limit(1)
)
"""The same click twice: the first one has let the series go on to its next occurrence."""

_GO_ON = (
    update(runs)
    .where(runs.c.id == bindparam("of_run"), runs.c.state == State.SUSPENDED)
    .values(wake_at=bindparam("at"), listed_at=bindparam("at"))
)


class Answered(NamedTuple):
    """An answer with who gave it, and why."""

    answer: ApprovalAnswer
    actor: str
    reason: str | None = None
    via: str | None = None


def due(connection: Connection, now: datetime, limit: int) -> list[tuple[str, str]]:
    """Return tenant and task of the questions whose deadline has passed, the longest due first."""
    return [(row.tenant, row.task_id) for row in connection.execute(_DUE, {"now": now, "most": limit})]


def is_repeat(connection: Connection, record: TaskRecord, answer: ApprovalAnswer, now: datetime) -> bool:
    """Whether the answer was given before. Raises `Refused` where nothing is asked, or the answer was another one."""
    approval = questions.newest(connection, record.run.id)
    if approval is None and asks_when_due(record.task):
        given = {"of_task": record.task.id, "how": answer, "since": now - UNDO_WINDOW}
        if connection.execute(_JUST_ANSWERED, given).first() is not None:
            return True
    return rules.is_repeat(record.task.id, approval, answer)


def store_default(connection: Connection, record: TaskRecord, now: datetime) -> bool:
    """Give the default answer to a question whose deadline has passed; False if it was answered first."""
    approval = questions.newest(connection, record.run.id)
    if approval is None or not approval.is_open or approval.ends_at is None or approval.ends_at > now:
        return False
    until = describe(approval.ends_at, record.task.timezone)
    by = Answered(approval.default, event_log.ITSELF, f"nobody answered until {until} {record.task.timezone}")
    store(connection, record, by, now)
    wanted = record.task.notify is not Notify.NEVER
    if wanted and approval.default is ApprovalAnswer.REJECT and record.run.state is State.WAITING:
        _tell(connection, record, by, now)
    return True


def store(connection: Connection, record: TaskRecord, by: Answered, now: datetime) -> None:
    """Store an answer with its event: a run that waited goes or is left out, one that asked goes on to read it."""
    run = record.run
    questions.close(connection, [run.id], now, answer=by.answer, by=by.actor, reason=by.reason)
    if by.answer is ApprovalAnswer.REJECT and run.state is State.WAITING:
        _leave_out(connection, record, by, now)
        return
    event_log.append(connection, [_entry(record, by, now)])
    if run.state is State.WAITING:
        why = f"{by.actor} approved it"
        ended = dependants.settle_waiting(connection, [record.task.id], now, why=why)
        dependants.follow(connection, ended, now)
    else:
        connection.execute(_GO_ON, {"of_run": run.id, "at": now})


def _leave_out(connection: Connection, record: TaskRecord, by: Answered, now: datetime) -> None:
    told: dict[str, Any] = {"actor": by.actor, "kind": KINDS[by.answer], "reason": by.reason, "via": by.via}
    change, overlapped = rejected(record, _words(by), now)
    changing.apply(connection, record, change, now=now, **told)
    if overlapped:
        left_out = places.placed(connection, overlapped)
        connection.execute(insert(runs), [new_run_values(record.task, run) for run in left_out])
        event_log.append(connection, [_skipped(run, record.run, now) for run in left_out])


def _skipped(run: Run, open_run: Run, now: datetime) -> event_log.EventValues:
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.SKIPPED,
        actor=event_log.ITSELF,
        reason=UNANSWERED.format(open_run.id),
        move=(None, run.state),
    )


def _words(by: Answered) -> str:
    return f"{by.actor} rejected it" + (f": {by.reason}" if by.reason else "")


def _entry(record: TaskRecord, by: Answered, now: datetime) -> event_log.EventValues:
    run = record.run
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=KINDS[by.answer],
        actor=by.actor,
        reason=by.reason,
        via=by.via,
        before=taken_back.kept_of(record) if run.state is State.WAITING else None,
    )


def _tell(connection: Connection, record: TaskRecord, by: Answered, now: datetime) -> None:
    """Tell the user that a task did not run because nobody answered."""
    text = f"it did not run: {by.reason}"
    state = State.SKIPPED if asks_when_due(record.task) else State.CANCELLED
    questions.tell(connection, [notice(record.task, record.run, text, state, now)])

"""Takes an approval back whose run has not started: the run waits again, and its user is asked again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from duetime.scheduler import remedies
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.principal import Acting
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.occurrence_approval import without_early_deadline
from duetime.scheduler.rules.states import TERMINAL, check_move
from duetime.scheduler.store.schema.rows import from_json, in_json, listed_at
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import event_log, waiters
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.task import ApprovalAnswer, Json, Run, State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval, question_of, reopened, taken_back_by
from sqlalchemy import Connection, bindparam, select, update

_REVISION = "revision"
_MOVED = ("scheduled_for", "deadline", "drop_at", "generation", "first_ready_at")
"""Fields of a run that an approval may change: a late one lets it run at another time."""

_YES = (
    select(events.c.before)
    .where(events.c.task_id == bindparam("of_task"), events.c.run_id == bindparam("of_run"))
    .where(events.c.kind == EventKind.APPROVED)
    .order_by(events.c.seq.desc())
    .limit(1)
)
_REOPEN = (
    update(approvals)
    .where(approvals.c.run_id == bindparam("of_run"), approvals.c.attempt == bindparam("of_attempt"))
    .values(closed_at=None, answer=None, answered_by=None, reason=None, ends_at=bindparam("until"))
)


def kept_of(record: TaskRecord) -> Mapping[str, Json]:
    """Return the fields of a waiting run that the event of its approval keeps, for taking it back."""
    return {_REVISION: record.task.revision, **{name: in_json(getattr(record.run, name)) for name in _MOVED}}


def take_back(connection: Connection, record: TaskRecord, token: str, acting: Acting, now: datetime) -> bool:
    """Ask again for a run that was approved; return whether it may be in the queue.

    Raises `Refused` for the token of another answer, and for a run that has started since, or was left out.
    """
    old, approval = record.run, questions.newest(connection, record.run.id)
    if approval is None or approval.answer is not ApprovalAnswer.APPROVE or taken_back_by(approval) != token:
        raise _stays(record, "has no such answer any more")
    if old.started_at is not None or old.state in TERMINAL:
        raise _stays(record, "has started since" if old.started_at else f"is {old.state}")
    run = _waiting(connection, record)
    values = {name: getattr(run, name) for name in (*_MOVED, "state", "wake_at")}
    unmoved = (runs.c.id == old.id, runs.c.state == old.state, runs.c.attempt == old.attempt)
    written = update(runs).where(*unmoved).values(**values, listed_at=listed_at(run))
    if connection.execute(written).rowcount != 1:
        raise _stays(record, "has started since")
    _ask_again(connection, record, run, approval, now)
    event_log.append(connection, [_event(old, run, acting, now)])
    waiters.note(connection, [record.task.id])
    return old.state is State.READY


def _waiting(connection: Connection, record: TaskRecord) -> Run:
    """Return the run as it waited for the answer; one that somebody has moved since keeps its new time."""
    task, run = record.task, record.run
    if run.state is State.WAITING:
        return run
    check_move(run.state, State.WAITING)
    kept = connection.execute(_YES, {"of_task": task.id, "of_run": run.id}).scalar() or {}
    unmoved = kept.get(_REVISION) == task.revision
    fields = {name: from_json(Run, name, kept[name]) for name in _MOVED} if unmoved else {}
    waiting = replace(run, **fields, state=State.WAITING, wake_at=None)
    waiting = waiting if before_run(task).asks_when_due else replace(waiting, first_ready_at=None)
    waiting = without_early_deadline(task, waiting)
    return places.placed(connection, [waiting])[0] if waiting.scheduled_for != run.scheduled_for else waiting


def _ask_again(connection: Connection, record: TaskRecord, run: Run, approval: Approval, now: datetime) -> None:
    again = reopened(approval, now)
    connection.execute(_REOPEN, {"of_run": run.id, "of_attempt": approval.attempt, "until": again.ends_at})
    questions.send(connection, [question_of(record.task, run, again)])


def _event(old: Run, run: Run, acting: Acting, now: datetime) -> event_log.EventValues:
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=EventKind.UNDONE,
        reason="its approval was taken back",
        move=(old.state, run.state) if old.state is not run.state else None,
        **acting,
    )


def _stays(record: TaskRecord, happened: str) -> Refused:
    task_id = record.task.id
    remedy = remedies.Inspect(task_id) if record.run.state in TERMINAL else remedies.Cancel(task_id)
    return Refused(f"{task_id} {happened}, so its approval stays.", argument="undo", remedy=remedy)

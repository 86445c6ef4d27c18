"""Occurrences that need an approval when they are due: each waits for an answer of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.rules.series.before_run import ANSWER_MEMBER, before_run
from duetime.scheduler.rules.series.occurrence_approval import ask
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import task_and_run
from duetime.scheduler.store.schema.stored_change import StoredChange
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.store.sql.locks import exactly
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.store.statements.approvals.questions import APPROVAL_FIELDS
from duetime.scheduler.store.statements.read import TASK_AND_RUN
from duetime.scheduler.store.statements.undo import last_changes
from duetime.scheduler.task import ApprovalAnswer, Run, State, Task
from duetime.scheduler.waits.approval import Approval, asked_again, reopened
from sqlalchemy import BindParameter, Connection, Row, bindparam, delete, null, or_, select, update

ASKED_REASON = "it is asked for before each of its runs"
"""Why a due run waits."""

_IDS: BindParameter[Sequence[str]] = bindparam("run_ids", expanding=True)
_FIRST = approvals.c.attempt == 0
_APPROVED = select(approvals.c.run_id).where(
    approvals.c.run_id.in_(_IDS), _FIRST, approvals.c.answer == ApprovalAnswer.APPROVE
)
_FORGET = delete(approvals).where(approvals.c.run_id.in_(_IDS), _FIRST)
_WHOLE = TASK_AND_RUN.where(runs.c.id.in_(_IDS))
_WAIT = Batch(
    update(runs)
    .where(runs.c.id == bindparam("run_id"), runs.c.wake_at.is_not(None))
    .values(state=State.WAITING, wake_at=null(), first_ready_at=bindparam("opened"), listed_at=bindparam("listed"))
)
_SAME_TIME = (
    runs.c.task_id == bindparam("of_task"),
    runs.c.scheduled_for == bindparam("of_time"),
    runs.c.id != bindparam("but"),
)
_BEFORE = (
    select(*APPROVAL_FIELDS)
    .join_from(approvals, runs, runs.c.id == approvals.c.run_id)
    .where(*_SAME_TIME, _FIRST)
    .order_by(approvals.c.asked_at.desc(), approvals.c.run_id.desc())
    .limit(1)
)
_IN_THIS_WAIT = (
    select(*APPROVAL_FIELDS)
    .join_from(approvals, runs, runs.c.id == approvals.c.run_id)
    .where(runs.c.task_id == bindparam("of_task"), _FIRST)
    .where(or_(runs.c.scheduled_for == bindparam("of_time"), runs.c.id == bindparam("of_run")))
    .order_by(approvals.c.asked_at.desc(), approvals.c.run_id.desc())
    .limit(1)
)


def without_unasked(
    connection: Connection, found: Sequence[Row[Any]], now: datetime
) -> tuple[Sequence[Row[Any]], Sequence[str]]:
    """Return the rows of due runs that need no approval, and the tasks of the others, which now wait for one."""
    asking = [row.id for row in found if row.asks is not None and ANSWER_MEMBER in row.asks and row.attempt == 0]
    if not asking:
        return found, ()
    unasked = set(asking).difference(connection.execute(_APPROVED, {"run_ids": asking}).scalars())
    asked = _ask(connection, sorted(unasked), now) if unasked else []
    return [row for row in found if row.id not in unasked], asked


def _ask(connection: Connection, run_ids: Sequence[str], now: datetime) -> list[str]:
    due = [task_and_run(row) for row in unreadable.rows(connection, _WHOLE, {"run_ids": list(run_ids)})]
    waiting = [(task, run, ask(run, max(now, run.wake_at or now))) for task, run in due]
    rows = [{"run_id": run.id, "opened": run.first_ready_at, "listed": run.scheduled_for} for _, _, run in waiting]
    exactly(len(rows), _WAIT.run(connection, rows))
    new = [(task, run, _new(connection, task, was, run, now)) for task, was, run in waiting]
    connection.execute(_FORGET, {"run_ids": list(run_ids)})
    questions.ask(connection, new)
    event_log.append(connection, [_event(task, was, run, now) for task, was, run in waiting])
    return [task.id for task, _ in due]


def ask_also(connection: Connection, begun: Sequence[tuple[Task, Run, Run]], now: datetime) -> None:
    """Ask for runs that have begun to wait for an event, unless they were approved or their tasks ask nothing.

    Each is given as it was, and as it waits.
    """
    asking = {run.id: (task, was, run) for task, was, run in begun if before_run(task).asks}
    if not asking:
        return
    given = {"run_ids": list(asking)}
    approved = set(connection.execute(_APPROVED, given).scalars())
    found = [each for run_id, each in asking.items() if run_id not in approved]
    approvals_of_runs = [(task, run, _new(connection, task, was, run, now)) for task, was, run in found]
    connection.execute(_FORGET, {"run_ids": [run.id for _, run, _ in approvals_of_runs]})
    questions.ask(connection, approvals_of_runs)
    event_log.append(connection, [_event(task, run, run, now) for task, run, _ in approvals_of_runs])


def forget(connection: Connection, run: Run, now: datetime) -> None:
    """Withdraw the question of a run whose task needs no approval any more."""
    questions.close(connection, [run.id], now)
    connection.execute(_FORGET, {"run_ids": [run.id]})


def taken_back(connection: Connection, stored: StoredChange) -> None:
    """Give an occurrence that comes back, since what left it out was undone, its answer again, or its question.

    So with one that was moved while it was asked for: its question was withdrawn.
    """
    task, run, now = stored.task, stored.run, stored.at
    if task.repeat is None and stored.old_task.repeat and run.state is State.WAITING:
        _ask_once_more(connection, task, run, now)
    if not before_run(task).asks_when_due or run.scheduled_for == stored.old_run.scheduled_for:
        return
    if not last_changes.began_by_last_change(connection, task, run):
        _ask_as_before(connection, task, run, now)
        return
    if not before_run(task).asks_in_series or questions.unanswered(connection, [run.id]):
        return
    given = {"of_task": task.id, "of_time": run.scheduled_for, "but": run.id}
    connection.execute(_FORGET, {"run_ids": [run.id]})  # of the occurrence whose place it leaves
    found = unreadable.values(connection, _BEFORE, Approval, APPROVAL_FIELDS, given)
    stands = bool(found) and found[0][0].answer is ApprovalAnswer.APPROVE
    if stands or run.state is State.WAITING:
        new = asked_again(found[0][0], run, run, now) if found else _asked_at(task, run, now)
        questions.ask(connection, [(task, run, new)])


def _ask_once_more(connection: Connection, task: Task, run: Run, now: datetime) -> None:
    """Open the question of a task that runs once again, as its undone recurrence had withdrawn it."""
    own = questions.newest(connection, run.id)
    if own is not None and not own.is_open and own.answer is None:
        forget(connection, run, now)
        questions.ask(connection, [(task, run, reopened(own, now))])


def _ask_as_before(connection: Connection, task: Task, run: Run, now: datetime) -> None:
    """Open the old question of a run again, with its old deadline, as the run is back at its time.

    Of a run that was asked at its other time too, the question ends as if it had been asked once.
    """
    opened = run.first_ready_at
    if run.state is not State.WAITING or opened is None:
        return
    own = questions.newest(connection, run.id)
    withdrawn = own is not None and not own.is_open and own.answer is None
    before = own if own and withdrawn else _asked_at(task, run, opened)
    forget(connection, run, now)
    questions.ask(connection, [(task, run, reopened(before, now))])


def _new(connection: Connection, task: Task, was: Run, run: Run, now: datetime) -> Approval:
    """Return the question of a run that waits from now on; what it was asked in this wait before ends when that did.

    A question whose time has passed is asked for as long once more.
    """
    if was.first_ready_at is not None:
        given = {"of_task": task.id, "of_time": run.scheduled_for, "of_run": run.id}
        if found := unreadable.values(connection, _IN_THIS_WAIT, Approval, APPROVAL_FIELDS, given):
            return replace(reopened(found[0][0], now), run_id=run.id)
    return _asked_at(task, run, max(now, run.first_ready_at or now))


def _asked_at(task: Task, run: Run, at: datetime) -> Approval:
    each_run = task.asks or {}
    seconds, default = each_run.get("seconds"), each_run.get("default") or ApprovalAnswer.REJECT
    ends_at = None if seconds is None else at + timedelta(seconds=seconds)
    return Approval(run.id, 0, each_run.get("question"), ApprovalAnswer(default), at, ends_at)


def _event(task: Task, was: Run, run: Run, now: datetime) -> event_log.EventValues:
    return event_log.entry(
        task.tenant,
        task.id,
        run.id,
        now,
        kind=EventKind.ASKED,
        actor=DUETIME_ACTOR,
        reason=ASKED_REASON,
        move=None if was is run else (was.state, run.state),
    )

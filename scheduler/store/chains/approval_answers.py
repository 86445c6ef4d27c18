"""Answers to approvals: that of a user, or the default one at the deadline."""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.events import DUETIME_ACTOR, EventKind
from duetime.scheduler.records import ChangeOrigin
from duetime.scheduler.rules.failures.repeated_end import is_repeated_end, quieted
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.occurrence_approval import rejected
from duetime.scheduler.store.chains import approval_undo
from duetime.scheduler.store.schema.rows import new_run_values
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.tasks import runs, tasks
from duetime.scheduler.store.statements import change as changing
from duetime.scheduler.store.statements import dependants, event_log, read
from duetime.scheduler.store.statements.approvals import defaults, questions
from duetime.scheduler.store.statements.approvals.open_questions import (
    Asked,
    latest,
    open_questions,
    the_one,
    waits_before_start,
)
from duetime.scheduler.store.statements.endings import places
from duetime.scheduler.store.statements.generations import side_generations
from duetime.scheduler.task import ApprovalAnswer, Notify, Run, State
from duetime.scheduler.views import UNDO_WINDOW, TaskRecord
from duetime.scheduler.waits import approval as rules
from duetime.scheduler.waits.approval import ANSWER_KINDS, notice
from sqlalchemy import Connection, bindparam, false, insert, or_, select, update

_UNANSWERED = "run {} waited for an answer"
"""Why an occurrence was left out."""

_DUE = (
    select(runs.c.tenant, runs.c.task_id, approvals.c.run_id, approvals.c.ends_at)
    .select_from(approvals.join(runs, runs.c.id == approvals.c.run_id).join(tasks, tasks.c.id == runs.c.task_id))
    .where(questions.OPEN_APPROVAL, approvals.c.ends_at <= bindparam("now"), tasks.c.paused == false())
    .order_by(approvals.c.ends_at, approvals.c.run_id)
    .limit(bindparam("most"))
)
_DUE_AFTER = _DUE.where(
    approvals.c.ends_at >= bindparam("last_end"),
    or_(approvals.c.ends_at > bindparam("last_end"), approvals.c.run_id > bindparam("last_run")),
)
_JUST_ANSWERED = (
    select(approvals.c.run_id)
    .join_from(approvals, runs, runs.c.id == approvals.c.run_id)
    .where(runs.c.task_id == bindparam("of_task"))
    .where(approvals.c.answer == bindparam("how"), approvals.c.closed_at >= bindparam("since"))
    .limit(1)
)
"""The same click twice: the run that asked may have ended since, and the series gone on to its next occurrence."""

_NEXT_REVISION = (
    update(tasks)
    .where(tasks.c.id == bindparam("of_task"))
    .values(revision=tasks.c.revision + 1, updated_at=bindparam("at"))
)
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


class Due(NamedTuple):
    """A question whose deadline has passed."""

    tenant: str
    task_id: str
    run_id: str
    ends_at: datetime


def due(connection: Connection, now: datetime, limit: int, after: Due | None = None) -> list[Due]:
    """Return the questions whose deadline has passed, the longest due first; only those after one that is known."""
    given: dict[str, Any] = {"now": now, "most": limit}
    if after is None:
        return [Due(*row) for row in connection.execute(_DUE, given)]
    given |= {"last_end": after.ends_at, "last_run": after.run_id}
    return [Due(*row) for row in connection.execute(_DUE_AFTER, given)]


def find(
    connection: Connection,
    record: TaskRecord,
    answer: ApprovalAnswer,
    now: datetime,
    *,
    run_id: str | None = None,
    oldest: bool = False,
) -> Asked | None:
    """Return the open question that an answer is for (of several the `oldest`), None where it was given before.

    Raises `Refused` where nothing is asked, the answer was another one, or it is not clear which question is meant.
    """
    found = open_questions(connection, record)
    if run_id is not None:
        found = [each for each in found if each.approval.run_id == run_id]
    question = the_one(found, oldest=oldest)
    if question is None:
        _check_repeat(connection, record, run_id, answer, now)
    return question


def _check_repeat(
    connection: Connection, record: TaskRecord, run_id: str | None, answer: ApprovalAnswer, now: datetime
) -> None:
    approval = questions.newest(connection, run_id) if run_id else latest(connection, record)
    if approval is None and run_id is None:
        given = {"of_task": record.task.id, "how": answer, "since": now - UNDO_WINDOW}
        if connection.execute(_JUST_ANSWERED, given).first() is not None:
            return
    rules.check_repeat(run_id or record.task.id, approval, answer)


def store_default(connection: Connection, record: TaskRecord, run_id: str, now: datetime) -> bool:
    """Give the default answer to a question whose deadline has passed; False if it was answered first.

    That of a run that has ended is withdrawn.
    """
    question = next((each for each in open_questions(connection, record) if each.approval.run_id == run_id), None)
    if question is None:
        questions.close(connection, [run_id], now)
        return False
    record, approval, _ = question
    if approval.ends_at is None or approval.ends_at > now:
        return False
    reason = defaults.unanswered(approval.ends_at, record.task.timezone)
    by = Answered(approval.default, DUETIME_ACTOR, reason)
    previous = read.compared_with(connection, [record.task]).get(record.task.id)
    store(connection, question, by, now)
    wanted = record.task.notify is not Notify.NEVER
    if wanted and record.run.current and approval.default is ApprovalAnswer.REJECT and waits_before_start(record.run):
        _notify(connection, record, by, now, previous)
    return True


def store(connection: Connection, question: Asked, by: Answered, now: datetime) -> None:
    """Store an answer with its event: a run that waited goes or is left out, one that asked continues to read it.

    A task that asks more moves to its next revision. So a second click on the same card is refused, and does not answer
    the next question.
    """
    record = question.record
    run, waits = record.run, waits_before_start(record.run)
    questions.close(connection, [run.id], now, answer=by.answer, by=by.actor, reason=by.reason)
    if by.answer is ApprovalAnswer.REJECT and waits:
        _leave_out(connection, record, by, now)
        return
    event_log.append(connection, [_entry(record, by, now)])
    if waits:
        why = f"{by.actor} approved it"
        dependants.let_waiting_go(connection, [record.task.id], now, why=why)
    else:
        connection.execute(_GO_ON, {"of_run": run.id, "at": now})
    if question.more:
        connection.execute(_NEXT_REVISION, {"of_task": record.task.id, "at": now})


def _leave_out(connection: Connection, record: TaskRecord, by: Answered, now: datetime) -> None:
    if not record.run.current:
        event_log.append(connection, [_entry(record, by, now)])
        by_user = by.actor != DUETIME_ACTOR
        side_generations.leave_out(connection, record.task, record.run, _words(by), now, by_user=by_user)
        return
    change, overlapped = rejected(record, _words(by), now)
    changing.apply(connection, record, change, ChangeOrigin(by.actor, ANSWER_KINDS[by.answer], by.reason, by.via), now)
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
        actor=DUETIME_ACTOR,
        reason=_UNANSWERED.format(open_run.id),
        move=(None, run.state),
    )


def _words(by: Answered) -> str:
    if by.actor == DUETIME_ACTOR and by.reason:
        return by.reason
    return f"{by.actor} rejected it" + (f": {by.reason}" if by.reason else "")


def _entry(record: TaskRecord, by: Answered, now: datetime) -> event_log.EventValues:
    run = record.run
    return event_log.entry(
        run.tenant,
        run.task_id,
        run.id,
        now,
        kind=ANSWER_KINDS[by.answer],
        actor=by.actor,
        reason=by.reason,
        via=by.via,
        before=approval_undo.kept_of(record) if run.current and waits_before_start(run) else None,
    )


def _notify(connection: Connection, record: TaskRecord, by: Answered, now: datetime, previous: Run | None) -> None:
    """Notify the user that a task did not run because nobody answered, unless it reports changes and this is none."""
    text = f"it did not run: {by.reason}"
    state = State.SKIPPED if before_run(record.task).asks_when_due else State.CANCELLED
    message = notice(record.task, record.run, text, state, now)
    is_quiet = record.task.notify is Notify.CHANGE and is_repeated_end(previous, state, error=by.reason)
    questions.send(connection, [quieted(message) if is_quiet else message])

"""Questions whether runs may go: asked with the run, sent to the user once, withdrawn with their answer.

A question is the one message that its run has in the inbox until it is answered; the outcome comes in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from duetime.scheduler import remedies
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.occurrence_wait import is_same_occurrence
from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.schema.rows import (
    DELIVERY_FIELDS,
    MESSAGE_FIELDS,
    columns_of,
    delivery_values,
    message_values,
)
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.deliveries import deliveries, inbox
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.sql.batch import Batch
from duetime.scheduler.task import ApprovalAnswer, Run, State, Task
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval, UserNotice, asked_again, question_of
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    update,
)

APPROVAL_FIELDS = columns_of(Approval, approvals)
OPEN_APPROVAL: ColumnElement[bool] = literal_column("approvals.closed_at IS NULL")
"""Questions without an answer; literal, as in the partial index."""

HAS_OPEN_APPROVAL: ColumnElement[bool] = (
    select(approvals.c.run_id).where(approvals.c.run_id == runs.c.id, OPEN_APPROVAL).correlate(runs).exists()
)
"""Runs for which a question is open."""

_IDS: BindParameter[Sequence[str]] = bindparam("run_ids", expanding=True)
ADD_APPROVALS = Batch(insert(approvals), [column.name for column in APPROVAL_FIELDS])
_MESSAGES = Batch(insert(inbox), [column.name for column in MESSAGE_FIELDS])
_DELIVERIES = Batch(insert(deliveries), [column.name for column in DELIVERY_FIELDS])
_OPEN_OF = select(approvals.c.run_id).where(approvals.c.run_id.in_(_IDS), OPEN_APPROVAL)
_NEWEST = (
    select(*APPROVAL_FIELDS)
    .where(approvals.c.run_id == bindparam("of_run"))
    .order_by(approvals.c.attempt.desc())
    .limit(1)
)
_BEFORE_ALL = select(*APPROVAL_FIELDS).where(approvals.c.run_id == bindparam("of_run"), approvals.c.attempt == 0)
_LATEST = _NEWEST.join_from(approvals, runs, runs.c.id == approvals.c.run_id).where(
    runs.c.tenant == bindparam("tenant"), approvals.c.attempt > 0, approvals.c.closed_at.is_not(None)
)
_OF_RUNS = (
    select(*APPROVAL_FIELDS)
    .join_from(approvals, runs, runs.c.id == approvals.c.run_id)
    .where(approvals.c.run_id.in_(_IDS), OPEN_APPROVAL, runs.c.tenant == bindparam("tenant"))
)
_REJECTED = (
    select(approvals.c.run_id)
    .join_from(approvals, runs, runs.c.id == approvals.c.run_id)
    .where(approvals.c.run_id.in_(_IDS), approvals.c.attempt == 0, approvals.c.answer == ApprovalAnswer.REJECT)
    .where(runs.c.tenant == bindparam("tenant"))
)
_APPROVED = (
    select(*APPROVAL_FIELDS)
    .join_from(approvals, runs, runs.c.id == approvals.c.run_id)
    .where(approvals.c.run_id.in_(_IDS), approvals.c.attempt == 0, approvals.c.answer == ApprovalAnswer.APPROVE)
    .where(runs.c.tenant == bindparam("tenant"))
)
_CLOSE = (
    update(approvals)
    .where(approvals.c.run_id.in_(_IDS), OPEN_APPROVAL)
    .values(
        closed_at=bindparam("at"),
        answer=bindparam("how"),
        answered_by=bindparam("who"),
        reason=bindparam("why"),
    )
)
_UNSEND = delete(deliveries).where(deliveries.c.run_id.in_(_IDS))
_UNSAY = delete(inbox).where(inbox.c.run_id.in_(_IDS), inbox.c.state == State.WAITING)
MOVED = "it was moved"
"""Why a question was withdrawn whose run asks again at another time."""

_BEFORE_START = frozenset({State.WAITING, State.SUSPENDED})
"""States in which a run may have an open question."""


def ask(connection: Connection, new: Iterable[tuple[Task, Run, Approval]]) -> None:
    """Store approvals of stored runs, and tell the owners of their tasks what is asked."""
    found = list(new)
    ADD_APPROVALS.run(connection, [values_of(approval) for _, _, approval in found])
    send(connection, [question_of(*each) for each in found if each[2].is_open])


def send(connection: Connection, notices: Sequence[UserNotice]) -> None:
    """Store messages and their deliveries; their runs have none before."""
    _MESSAGES.run(connection, [message_values(each.message) for each in notices])
    _DELIVERIES.run(connection, [delivery_values(sent) for each in notices for sent in each.deliveries])


def unanswered(connection: Connection, run_ids: Sequence[str]) -> set[str]:
    """Return those of the runs that have an open question."""
    return set(connection.execute(_OPEN_OF, {"run_ids": list(run_ids)}).scalars()) if run_ids else set()


def newest(connection: Connection, run_id: str) -> Approval | None:
    """Return the last question of a run, open or closed."""
    found = unreadable.values(connection, _NEWEST, Approval, APPROVAL_FIELDS, {"of_run": run_id})
    return found[0][0] if found else None


def answered(connection: Connection, tenant: str, run_id: str) -> Approval | None:
    """Return the last answered question of a run's handler."""
    found = unreadable.values(connection, _LATEST, Approval, APPROVAL_FIELDS, {"of_run": run_id, "tenant": tenant})
    return found[0][0] if found else None


def open_of(connection: Connection, tenant: str, run_ids: Sequence[str]) -> dict[str, Approval]:
    """Return the open questions of those runs that the tenant has."""
    values = {"tenant": tenant, "run_ids": list(run_ids)}
    found = unreadable.values(connection, _OF_RUNS, Approval, APPROVAL_FIELDS, values)
    return {approval.run_id: approval for approval, _ in found}


def open_counts(connection: Connection, tenant: str | None) -> dict[str, int]:
    """Return how many questions wait for an answer, by the state of their runs; of all tenants for None."""
    of_tenant = [] if tenant is None else [runs.c.tenant == tenant]
    asked = select(runs.c.state, func.count()).select_from(approvals.join(runs, runs.c.id == approvals.c.run_id))
    of_open = asked.where(OPEN_APPROVAL, runs.c.ended_at.is_(None), *of_tenant)
    return {str(state): int(count) for state, count in connection.execute(of_open.group_by(runs.c.state))}


def rejected(connection: Connection, tenant: str, run_ids: Sequence[str]) -> set[str]:
    """Return those of the tenant's runs that were rejected before they started."""
    values = {"tenant": tenant, "run_ids": list(run_ids)}
    return set(connection.execute(_REJECTED, values).scalars()) if run_ids else set()


def approved(connection: Connection, tenant: str, run_ids: Sequence[str]) -> dict[str, Approval]:
    """Return those of the tenant's runs that were approved before they started, each with its answer."""
    values = {"tenant": tenant, "run_ids": list(run_ids)}
    found = unreadable.values(connection, _APPROVED, Approval, APPROVAL_FIELDS, values) if run_ids else []
    return {approval.run_id: approval for approval, _ in found}


def close(
    connection: Connection,
    run_ids: Sequence[str],
    now: datetime,
    *,
    answer: ApprovalAnswer | None = None,
    by: str | None = None,
    reason: str | None = None,
) -> None:
    """Close the open questions of runs, with an answer or without one, and take them out of the inbox."""
    values: dict[str, Any] = {"run_ids": list(run_ids), "at": now, "how": answer, "who": by, "why": reason}
    if run_ids and connection.execute(_CLOSE, values).rowcount:
        connection.execute(_UNSEND, {"run_ids": list(run_ids)})
        connection.execute(_UNSAY, {"run_ids": list(run_ids)})


def withdraw(
    connection: Connection, ending: Iterable[tuple[str, State]], now: datetime, why: str | None = None
) -> None:
    """Withdraw the questions of runs that end; each comes with the state that it leaves."""
    close(connection, [run_id for run_id, state in ending if state in _BEFORE_START], now, reason=why)


def check_change(connection: Connection, record: TaskRecord, change: Change, run: Run, kind: EventKind) -> None:
    """Refuse a change that would go around an approval: an earlier start, or other work than was approved.

    A run that is asked for when it is due asks again then, unless it is to run now. The resume of a task whose
    question is over lets its run read the default answer.
    """
    old, task_id = record.run, record.task.id
    asks_again = change.task.asks != record.task.asks or before_run(change.task).asks_when_due
    asks_again = asks_again or (before_run(change.task).awaits and before_run(change.task).asks)
    started = old.state is State.WAITING and run.state is State.SCHEDULED
    started = started and (kind is EventKind.RUN_NOW or not asks_again)
    resumed = old.state is State.SUSPENDED and run.state is State.SUSPENDED and run.wake_at != old.wake_at
    resumed = resumed and kind is not EventKind.RESUMED
    if (started or resumed) and unanswered(connection, [old.id]):
        raise Refused(f"{task_id} needs an approval first.", remedy=remedies.Inspect(task_id))
    if change.task.payload != record.task.payload and old.ended_at is None and old.started_at is None:
        approval = newest(connection, old.id)
        if approval is not None and approval.answer is ApprovalAnswer.APPROVE:
            raise Refused(
                f"{task_id} was approved by {approval.answered_by} with its current payload, "
                "so the payload cannot change.",
                argument="payload",
                remedy=remedies.ScheduleAnother(),
            )


def held_back(connection: Connection, task: Task, old: Run, run: Run, now: datetime) -> Run:
    """Return the next generation of a run as waiting, if it needs an approval of its own."""
    approval = _of_wait(connection, task, old) if _is_again(task, old, run) else None
    if approval is None:
        return run
    if before_run(task).asks_when_due and is_same_occurrence(old, run):
        run = replace(run, first_ready_at=old.first_ready_at)
    elif before_run(task).asks_in_chain:
        run = replace(run, first_ready_at=now)  # it is asked for now, as one whose turn has come
    waits = asked_again(approval, old, run, now).is_open
    return replace(run, state=State.WAITING, wake_at=None) if waits else run


def carry_over(connection: Connection, pairs: Iterable[tuple[Task, Run, Run]], now: datetime) -> None:
    """Give the next generations of runs, which are stored, the approvals that these had or need again.

    A run that waits for an event as well is asked for when its wait begins, a step of a generation in its turn.
    """
    found = [(task, old, run, _of_wait(connection, task, old)) for task, old, run in pairs if _is_again(task, old, run)]
    again = [(task, run, asked_again(each, old, run, now)) for task, old, run, each in found if each]
    ask(connection, [each for each in again if not (each[2].is_open and _asks_later(each[0], each[1]))])


def _asks_later(task: Task, run: Run) -> bool:
    before = before_run(task)
    return before.awaits or (before.asks_in_chain and run.first_ready_at is None)


def _is_again(task: Task, old: Run, run: Run) -> bool:
    """Whether a run repeats the one before it; a later occurrence gets a question of its own when it is due."""
    return not before_run(task).asks_in_series or (run.number == old.number and run.generation == old.generation + 1)


def _of_wait(connection: Connection, task: Task, run: Run) -> Approval | None:
    """Return what the task of a run has asked, unless a move has withdrawn it: it is asked for when it is due then."""
    found = _of_task(connection, run)
    is_withdrawn = found and found.answer is None and found.reason == MOVED and before_run(task).asks_when_due
    return None if is_withdrawn else found


def _of_task(connection: Connection, run: Run) -> Approval | None:
    """Return the approval that the task of a run needs before its start; None for a question of its handler."""
    found = unreadable.values(connection, _BEFORE_ALL, Approval, APPROVAL_FIELDS, {"of_run": run.id})
    return found[0][0] if found else None


def values_of(approval: Approval) -> dict[str, Any]:
    return {field.name: getattr(approval, field.name) for field in fields(approval)}

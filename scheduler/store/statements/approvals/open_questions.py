"""The runs of a task that ask: its current one, and those that continue next to it.

A handler may ask in any run: one that was to run now, or one that the next occurrence has overtaken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from duetime.scheduler import remedies
from duetime.scheduler.errors import Refused, TaskNotFound
from duetime.scheduler.ids import is_id, is_run_id
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements.approvals import questions
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import USUAL_QUESTION, Approval
from sqlalchemy import Connection, bindparam, select

MAX_QUESTIONS_NAMED = 3

_TASK_OF = select(runs.c.task_id).where(runs.c.id == bindparam("of_run"), runs.c.tenant == bindparam("tenant"))


class Asked(NamedTuple):
    """An open question; `record` has the run that asks it. `more` says whether the task has other open questions."""

    record: TaskRecord
    approval: Approval
    more: bool


def task_of(connection: Connection, tenant: str, run_or_task_id: str) -> tuple[str, str | None]:
    """Return the task of an id, and the run where it is the id of a run. Raises TaskNotFound for an unknown run."""
    if not is_run_id(run_or_task_id):
        return run_or_task_id, None
    found = None
    if is_id(run_or_task_id):
        found = connection.execute(_TASK_OF, {"of_run": run_or_task_id, "tenant": tenant}).scalar()
    if found is None:
        raise TaskNotFound(run_or_task_id)
    return str(found), run_or_task_id


def open_questions(connection: Connection, record: TaskRecord) -> list[Asked]:
    """Return the open questions of a task's runs, the oldest first."""
    of_run = {run.id: run for run in _open(record)}
    found = questions.open_of(connection, record.task.tenant, list(of_run)).values() if of_run else ()
    oldest = sorted(found, key=lambda each: (each.asked_at, each.run_id))
    return [Asked(replace(record, run=of_run[each.run_id]), each, len(oldest) > 1) for each in oldest]


def the_one(found: Sequence[Asked], *, oldest: bool) -> Asked | None:
    """Return the question that is meant where a task is named: its only one, or the `oldest`.

    Raises Refused where there are several otherwise: a repeated call would answer the next one.
    """
    if len(found) > 1 and not oldest:
        task_id = found[0].record.task.id
        named = "; ".join(_named(each) for each in found[:MAX_QUESTIONS_NAMED])
        more = f"; and {len(found) - MAX_QUESTIONS_NAMED} more" if len(found) > MAX_QUESTIONS_NAMED else ""
        text = f"{task_id} asks {len(found)} questions: answer each by the id of its run: {named}{more}."
        raise Refused(text, argument="task_id", remedy=remedies.Inspect(task_id))
    return found[0] if found else None


def latest(connection: Connection, record: TaskRecord) -> Approval | None:
    """Return what was answered last of all that the current run, and those next to it, have asked."""
    newest = (questions.newest(connection, run.id) for run in (record.run, *record.side_runs))
    closed = [each for each in newest if each is not None and each.closed_at is not None]
    return max(closed, key=lambda each: each.closed_at or each.asked_at, default=None)


def _open(record: TaskRecord) -> Iterator[Run]:
    yield from (run for run in (record.run, *record.side_runs) if run.ended_at is None)


def _named(question: Asked) -> str:
    run, zone = question.record.run, question.record.task.timezone
    return f"{run.id} ({question.approval.question or USUAL_QUESTION}, {describe(run.scheduled_for, zone)})"


def waits_before_start(run: Run) -> bool:
    """Whether the answer decides if the run starts at all; else the handler of the run reads it."""
    return run.state is State.WAITING

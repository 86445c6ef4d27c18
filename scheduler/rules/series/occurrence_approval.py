"""Occurrences that ask before they run: what becomes of one that was asked for, and how the series continues.

A step of a chain that recurs asks as well when it is due, in each generation; the chain decides how that continues.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import NamedTuple

from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules.occurrences import delay_of
from duetime.scheduler.rules.series.before_run import before_run
from duetime.scheduler.rules.series.overlap import Continuation, continuation_after
from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import CHAIN_ACTION, TaskRecord


class Rejection(NamedTuple):
    """The change that skips a rejected run, and runs for the occurrences that fell due while the question was open."""

    change: Change
    left_out: tuple[Run, ...] = ()


def final_no_text(task: Task) -> str:
    """Return what a refused undo adds for a step of a recurring chain, where no rejection can be undone."""
    return " A no to a step of a chain that recurs cannot be undone." if before_run(task).asks_in_chain else ""


def withdrawn_question_note(record: TaskRecord, change: Change) -> str:
    """Return a note for a change that withdraws an open question, as its run asks again at its new time; else empty."""
    old, run, task = record.run, change.run, change.task
    is_moved = run.id == old.id and run.state is State.SCHEDULED and run.scheduled_for != old.scheduled_for
    was_open = old.state is State.WAITING and before_run(record.task).holds_alone(old)
    if not (is_moved and was_open and before_run(task).asks_when_due):
        return ""
    at = run.scheduled_for
    text = f"its question is withdrawn; it asks again {describe(at, task.timezone)}"
    return Translatable.of(NoteKind.QUESTION_WITHDRAWN, text, at=at.isoformat())


def ask(run: Run, at: datetime) -> Run:
    """Return the due run as waiting for its approval. It counts as open from now on, for the overlap policy."""
    return replace(run, state=State.WAITING, wake_at=None, first_ready_at=run.first_ready_at or at)


def after_wait(task: Task, run: Run, now: datetime) -> Run:
    """Return the run as scheduled again, now that its wait is over. It keeps its time, place and deadline."""
    return replace(run, state=State.SCHEDULED, wake_at=max(run.scheduled_for + delay_of(task), now))


def counts_from_its_turn(task: Task, run: Run) -> bool:
    """Whether the relative deadline of a waiting run counts from when it may start, and so does not exist before.

    That of a chain is of its last steps, and exists with theirs.
    """
    if task.action == CHAIN_ACTION:
        return task.deadline_after is not None and run.deadline is None and run.ended_at is None
    return run.state is State.WAITING and task.deadline_after is not None and not before_run(task).keeps_time(run)


def without_early_deadline(task: Task, run: Run) -> Run:
    """Return the waiting run without a relative deadline that would count before its turn has come."""
    return replace(run, deadline=None, drop_at=None) if counts_from_its_turn(task, run) else run


def has_waited(task: Task, run: Run) -> bool:
    """Whether a run that waited when it was due has been approved, or has received its event."""
    return before_run(task).holds_in_series and run.state is State.SCHEDULED and run.first_ready_at is not None


def rejected(record: TaskRecord, why: str, now: datetime) -> Rejection:
    """Return the effect of a rejection: the occurrence is skipped and its series continues, or the task ends.

    As any skipped occurrence it uses up no number. A step of a chain that recurs is skipped in this generation.
    """
    task, run = record.task, record.run
    series = before_run(task).asks_in_series
    coming = continuation_after(task, replace(run, number=run.number - 1), now) if series else Continuation()
    to = State.SKIPPED if coming.next_run or before_run(task).asks_in_chain else State.CANCELLED
    ended = replace(run, state=to, wake_at=None, ended_at=now, overtaken_at=None, error=why)
    return Rejection(Change(task, ended, next_run=coming.next_run, kind=EventKind.REJECTED), coming.skipped)

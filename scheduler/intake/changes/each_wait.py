"""Decides the part of a reschedule that changes which event, or which approval, each run of a series waits for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from duetime.scheduler import remedies
from duetime.scheduler.errors import Refused
from duetime.scheduler.intake.repeat_policy import check_one_question
from duetime.scheduler.intake.terms.approval import asked_before_each
from duetime.scheduler.records import Change
from duetime.scheduler.rules.changes import back_to_timer, when_words
from duetime.scheduler.rules.occurrences import delay_of
from duetime.scheduler.rules.series.before_run import EVENT_MEMBER, before_run
from duetime.scheduler.rules.series.occurrence_wait import awaited_by_each
from duetime.scheduler.rules.signals.signal_waits import read_each_wait
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.task import RepeatPolicy, Run, State, Task
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval


def changes_each_wait(record: TaskRecord, change: Change) -> bool:
    """Whether a reschedule changes the wait of every run of the series, and not a wait that happens once."""
    if before_run(change.task).awaits:
        return True
    goes_on = change.task.repeat is not None and record.run.state not in TERMINAL
    return goes_on and not waits_once(record, change)


def waits_once(record: TaskRecord, change: Change) -> bool:
    """Whether the current run waits for something that its task had before it recurred."""
    return record.run.state is State.WAITING and change.task.asks is None


def refuse_ended(record: TaskRecord, run: Run, argument: str) -> None:
    """Refuse a change of what an ended run waits for."""
    if run.state in TERMINAL:
        text = f"{record.task.id} has already ended ({run.state} {when_words(run, record.task)})."
        raise Refused(text, argument=argument, remedy=remedies.ScheduleAnother())


def each_wait_step(
    record: TaskRecord, change: Change, given: Mapping[str, Any], now: datetime, *, in_chain: bool = False
) -> Change:
    """Return `change` with the event that each run waits for from now on, none for an empty one.

    A run that waits by now waits again, from now on, or goes at its time. A run that had its event keeps it. Where no
    event was awaited before, a run that is ready leaves the queue and waits.
    """
    asks = _asks(change.task, given, now, in_chain=in_chain)
    if asks == change.task.asks:
        return change
    if change.next_run is None:
        refuse_ended(record, change.run, "wait_for")
    check_one_question(_policy_of_series(change.task), asks)
    task, run = replace(change.task, asks=asks), change.run
    if run.state is State.WAITING and run.first_ready_at and before_run(record.task).awaits:
        due = max(run.scheduled_for + delay_of(task), now)
        run = replace(run, state=State.SCHEDULED, wake_at=due, first_ready_at=None)
    elif not before_run(record.task).awaits:
        run = back_to_timer(run)
    return replace(change, task=task, run=run)


def each_question_step(record: TaskRecord, change: Change, approval: Approval, *, in_chain: bool = False) -> Change:
    """Return `change` with the question that is asked before each run from now on. Raises Refused where it has one.

    A run that is ready leaves the queue, and one that waits for its event by now is asked for as well.
    """
    task = change.task
    if before_run(task).asks:
        text = f"{task.id} has its question already, which only the user answers."
        raise Refused(text, argument="approval", remedy=remedies.Inspect(task.id))
    if change.next_run is None:
        refuse_ended(record, change.run, "approval")
    kept = asked_before_each(approval, in_chain=in_chain or before_run(task).awaits_in_chain)
    asks = {**(task.asks or {}), **kept}
    check_one_question(_policy_of_series(task), asks)
    return replace(change, task=replace(task, asks=asks), run=back_to_timer(change.run))


def _policy_of_series(task: Task) -> RepeatPolicy | None:
    return task.repeat_policy if task.repeat else None  # a step has that of its chain


def _asks(task: Task, given: Mapping[str, Any], now: datetime, *, in_chain: bool) -> Mapping[str, Any] | None:
    question = {name: value for name, value in (task.asks or {}).items() if name != EVENT_MEMBER}
    if not given:
        return question or None
    wait = read_each_wait(given, now)
    return {**question, **awaited_by_each(wait, now, in_chain=in_chain or before_run(task).awaits_in_chain)}

"""Changes of the terms of a task: what its results have to meet, what follows from a failure, how it is tried again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.terms.outcome_contract import check_expected
from duetime.scheduler.intake.validation import ProblemCollector
from duetime.scheduler.principal import Principal
from duetime.scheduler.rules.states import blocked_by
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.translatable import NoteKind, Translatable
from duetime.scheduler.views import TaskRecord

AFTER_THE_ATTEMPT = Translatable.of(
    NoteKind.AFTER_THE_ATTEMPT,
    "the attempt that is running ends as it began; retry, deliver_to, expect and on_failure count from the next one",
)
PAUSED_AFTER_THE_ATTEMPT = Translatable.of(
    NoteKind.AFTER_THE_ATTEMPT, "the attempt that is running goes on; the pause counts from the next one"
)


def promised(task: Task, request: Reschedule, planner: Planner, now: datetime) -> Task:
    """Change what the results of a task have to meet, and what follows from its failures."""
    if request.expect is None and request.on_failure is None:
        return task
    problems, reader = ProblemCollector(), planner.follow_ups(Principal(task.tenant, task.owner), now, task.origin)
    problems.of(check_expected, request, planner.handlers, task.action)
    on_failure = None if request.on_failure is None else problems.of(reader.read, request.on_failure)
    if problems:
        raise problems.error()
    expect = task.expect if request.expect is None else request.expect
    return replace(task, expect=expect, on_failure=task.on_failure if on_failure is None else on_failure)


def unblocked(run: Run) -> Run:
    """Return a run that has another payload now: what it missed with the old one is not known of it."""
    return replace(run, summary=None) if run.state is State.SCHEDULED and blocked_by(run) else run


def late_for_the_attempt(record: TaskRecord, task: Task, request: Reschedule) -> tuple[str, ...]:
    """Say that an attempt ends by what was known at its start; what follows it in a series goes by the change."""
    if record.run.state is not State.RUNNING:
        return ()
    changed = _terms(record.task) != _terms(task) or (record.task.deliver_to != task.deliver_to and not task.repeat)
    paused = (request.pause or request.pause_until is not None) and not record.task.paused
    return (*((AFTER_THE_ATTEMPT,) if changed else ()), *((PAUSED_AFTER_THE_ATTEMPT,) if paused else ()))


def _terms(task: Task) -> tuple[object, ...]:
    return task.retry, task.expect, task.on_failure

"""The deadlines of runs: when one must be finished, and when a timer has to look at it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from duetime.scheduler.rules.estimates import UNKNOWN
from duetime.scheduler.rules.order import drop_at
from duetime.scheduler.task import Run, Task


def dated(task: Task, run: Run, *, at: datetime | None, p50: timedelta) -> Run:
    """Return `run` with its deadline: counted from when it is due where the task says so, else the instant `at`.

    `p50` is how long it probably takes.
    """
    deadline = run.scheduled_for + task.deadline_after if task.deadline_after is not None else at
    return replace(run, deadline=deadline, drop_at=None if deadline is None else drop_at(deadline, p50))


def dated_like(task: Task, run: Run, earlier: Run) -> Run:
    """Return `run`, which follows `earlier` or is another time of it, with the deadline that the task gives it.

    A deadline that was an instant belongs to it only as long as it can still be met.
    """
    p50 = set_aside(task, earlier)
    found = dated(task, run, at=earlier.deadline, p50=p50)
    follows = run.id != earlier.id and found.drop_at is not None and found.drop_at < run.scheduled_for
    return replace(run, deadline=None, drop_at=None) if follows and task.deadline_after is None else found


def set_aside(task: Task, run: Run) -> timedelta:
    """Return how much time before its deadline a run was thought to take."""
    if run.deadline is not None and run.drop_at is not None:
        return run.deadline - run.drop_at
    return task.estimate or UNKNOWN

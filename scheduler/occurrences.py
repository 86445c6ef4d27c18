"""The occurrences of a recurring task: which comes next, which are to be shown, and what was missed."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import lru_cache

from duetime.scheduler.ids import new_id
from duetime.scheduler.rules import recurrence
from duetime.scheduler.rules.recurrence import Recurrence
from duetime.scheduler.task import Occurrence, Run, State, Task

MISSED_COUNTED = 10_000
"""Passed-over occurrences are counted up to this many, so that a long outage cannot hold up a settlement."""


def recurrence_of(task: Task) -> Recurrence | None:
    """Return the task's recurrence, None for a one-shot."""
    return _parsed(task.repeat, task.timezone, task.anchor) if task.repeat else None


@lru_cache(maxsize=4096)
def _parsed(rule: str, zone: str, anchor: datetime) -> Recurrence:
    return recurrence.parse(rule, zone=zone, anchor=anchor)


def next_run(task: Task, run: Run, now: datetime) -> Run | None:
    """Return the occurrence that follows `run`: the first one after both its time and `now`, None at the end.

    Occurrences in between were missed while nothing ran; they are counted on the new run and never run one by one.
    """
    rule = recurrence_of(task)
    if rule is None:
        return None
    following = rule.after(max(run.scheduled_for, now))
    if following is None or _ended(task, following.instant, run.number + 1):
        return None
    return Run(
        id=new_id("r"),
        task_id=task.id,
        tenant=task.tenant,
        scheduled_for=following.instant,
        state=State.SCHEDULED,
        number=run.number + 1,
        wake_at=None if task.paused else following.instant,
        missed=_missed(rule, run.scheduled_for, now),
    )


def upcoming(task: Task, run: Run, n: int) -> tuple[Occurrence, ...]:
    """Return up to `n` occurrences of a recurring task, from `run` on."""
    rule = recurrence_of(task)
    if rule is None:
        return ()
    shown = rule.upcoming(run.scheduled_for - timedelta(microseconds=1), n)
    return tuple(o for i, o in enumerate(shown) if not _ended(task, o.instant, run.number + i))


def _ended(task: Task, instant: datetime, number: int) -> bool:
    past_until = task.until is not None and instant > task.until
    return past_until or (task.max_runs is not None and number > task.max_runs)


def _missed(rule: Recurrence, after: datetime, now: datetime) -> int:
    passed = 0
    while passed < MISSED_COUNTED:
        following = rule.after(after)
        if following is None or following.instant > now:
            break
        after, passed = following.instant, passed + 1
    return passed

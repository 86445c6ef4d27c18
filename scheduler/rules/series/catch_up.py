"""Catching up: which occurrences still run that were missed while nothing ran, or while their task was paused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules.occurrences import MAX_MISSES_COUNTED, delay_of, next_run, recurrence_of, used_up_to
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.task import Coalesce, RepeatPolicy, Run, State, Task
from duetime.scheduler.views import TaskRecord


def catches_up(policy: RepeatPolicy | None) -> bool:
    """Whether a policy says which missed occurrences run; by default the first one runs for all of them."""
    return policy is not None and (policy.catchup_window is not None or policy.coalesce is not None)


def resumed_at(task: Task, run: Run, now: datetime) -> datetime:
    """Return when a resumed run continues: at once if it is due, but a step whose chain catches up counts as missed."""
    due = run.wake_at or run.scheduled_for
    in_chain = task.repeat is None and run.started_at is None
    return due if in_chain and catches_up(task.repeat_policy) else max(due, now)


def catch_up(record: TaskRecord, now: datetime) -> Change | None:
    """Return the change that replaces a due run by the occurrence to catch up with; None where it runs itself."""
    task, run = record.task, record.run
    coming = _chosen(task, run, now)
    if coming is None or coming.id == run.id:
        return None
    left_out = replace(run, state=State.SKIPPED, wake_at=None, ended_at=now)
    return Change(task, left_out, next_run=coming, kind=EventKind.SKIPPED)


def next_missed(task: Task, run: Run, opened: datetime, now: datetime) -> Run | None:
    """Return the next missed occurrence before `opened`, where the policy runs every one of them."""
    policy = task.repeat_policy
    if policy is None or policy.coalesce is not Coalesce.ALL:
        return None
    start = used_up_to(run) if policy.catchup_window is None else max(used_up_to(run), now - policy.catchup_window)
    coming = next_run(task, run, start)
    return coming if coming is not None and coming.scheduled_for <= opened else None


def _chosen(task: Task, run: Run, now: datetime) -> Run | None:
    """Return the occurrence to run at `now` in place of `run`, or `run`; None at the end of a series."""
    policy = task.repeat_policy or RepeatPolicy()
    oldest = None if policy.catchup_window is None else now - policy.catchup_window - delay_of(task)
    alone = oldest is None or run.scheduled_for >= oldest
    if alone and policy.coalesce is not Coalesce.LATEST:
        return run
    found = [at for at in _missed(task, run, now) if oldest is None or at >= oldest]
    if not found:
        return run if alone else next_run(task, run, now, number=run.number)
    before = (found[-1] if policy.coalesce is Coalesce.LATEST else found[0]) - MICROSECOND
    return next_run(task, run, before, number=run.number)


def _missed(task: Task, run: Run, now: datetime) -> Iterator[datetime]:
    """Yield the times after that of `run` that have passed."""
    rule, at = recurrence_of(task), used_up_to(run)
    end = now if task.until is None else min(now, task.until)
    for _ in range(MAX_MISSES_COUNTED):
        coming = rule.after(at) if rule else None
        if coming is None or coming.instant > end:
            return
        at = coming.instant
        yield at

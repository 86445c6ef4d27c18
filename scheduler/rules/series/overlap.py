"""Occurrences that fall due while the run before them is open: skipped, or run when it has ended.

A run is open from when it may start. Occurrences that passed before that were missed because nothing ran, not because
of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from duetime.scheduler.ids import new_id
from duetime.scheduler.rules.occurrences import newest_due, next_run, recurrence_of, used_up_to
from duetime.scheduler.rules.series.catch_up import next_missed
from duetime.scheduler.rules.series.overtake import OVERTAKING_POLICIES
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.task import Overlap, Run, State, Task

MAX_SKIPPED_RUNS = 10
"""Skipped occurrences that get a row each when a run ends; `missed` of the next run counts all of them."""


@dataclass(frozen=True, slots=True)
class Continuation:
    """The run that follows when one ends (None at the end of a series), and the occurrences skipped before it."""

    next_run: Run | None = None
    skipped: tuple[Run, ...] = ()


def continuation_after(task: Task, run: Run, now: datetime) -> Continuation:
    """Return how a series continues after `run`, which ends at `now`."""
    overlap = task.repeat_policy.overlap if task.repeat_policy else Overlap.SKIP
    opened = min(run.first_ready_at or now, now)
    missed = next_missed(task, run, opened, now)
    if missed is not None:
        return Continuation(missed)
    if overlap is Overlap.SKIP:
        coming = next_run(task, run, now)
        overlapped = coming is not None and coming.missed
        return Continuation(coming, _skipped(task, run, max(opened, used_up_to(run)), now) if overlapped else ())
    if overlap in OVERTAKING_POLICIES:
        return _newest(task, run, opened, now)
    coming = next_run(task, run, opened)
    if coming is None or coming.scheduled_for > now:
        return Continuation(coming)
    late = replace(coming, first_ready_at=coming.scheduled_for if overlap is Overlap.BUFFER_ALL else None)
    if overlap is Overlap.BUFFER_ALL:
        return Continuation(late)
    return Continuation(late, _skipped(task, late, late.scheduled_for, now))


def _newest(task: Task, run: Run, opened: datetime, now: datetime) -> Continuation:
    """Return the newest occurrence that fell due in the meantime, or else the next one."""
    coming = newest_due(task, run, opened, now)
    if coming is None:
        return Continuation(next_run(task, run, now))
    before = coming.scheduled_for - MICROSECOND
    return Continuation(coming, _skipped(task, run, max(opened, used_up_to(run)), before) if coming.missed else ())


def pause_after_failures(task: Task, failed: int, noun: str = "run") -> str:
    """Return why a task, or a chain by one of its steps, pauses after so many failures in a row; else empty."""
    most = task.repeat_policy.pause_after if task.repeat_policy else None
    if most is None or failed < most:
        return ""
    return f"a {noun} failed" if failed == 1 else f"{failed} {noun}s in a row failed"


def skipped_runs(task: Task, run: Run, now: datetime) -> tuple[Run, ...]:
    """Return the runs, skipped, of what fell due while the next occurrence itself waited, where one alone waits."""
    policy = task.repeat_policy
    waits_alone = policy is not None and policy.overlap in (Overlap.BUFFER_ONE, Overlap.CANCEL_OTHER)
    return _skipped(task, run, used_up_to(run), now) if run.current and waits_alone else ()


def _skipped(task: Task, run: Run, after: datetime, until: datetime) -> tuple[Run, ...]:
    """Return the runs, skipped, of the first occurrences in a span of time."""
    rule, found = recurrence_of(task), list[Run]()
    end = until if task.until is None else min(until, task.until)
    while rule and len(found) < MAX_SKIPPED_RUNS and (coming := rule.after(after)) and coming.instant <= end:
        after = coming.instant
        found.append(_left_out(task, run, after, until))
    return tuple(found)


def _left_out(task: Task, run: Run, scheduled_for: datetime, now: datetime) -> Run:
    return Run(
        id=new_id("r"),
        task_id=task.id,
        tenant=task.tenant,
        scheduled_for=scheduled_for,
        state=State.SKIPPED,
        number=run.number + 1,
        current=False,
        ended_at=now,
    )

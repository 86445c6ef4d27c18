"""Short words about runs that several sentences share."""

from __future__ import annotations

from collections.abc import Iterable

from duetime.scheduler.rules.time.times import describe
from duetime.scheduler.task import Run, Task

MOST_NAMED = 5


def runs_words(run_ids: Iterable[str]) -> str:
    """Return `1 run (r_1)` or `7 runs (r_1, r_2, r_3, r_4, r_5 and others)`, for logs."""
    named = list(run_ids)
    shown = ", ".join(named[:MOST_NAMED]) + (" and others" if len(named) > MOST_NAMED else "")
    return f"{len(named)} run{'s' if len(named) != 1 else ''} ({shown})"


def when_words(run: Run, task: Task) -> str:
    """Return when a run was or is to be, as a person in the task's zone would write it."""
    return f"{describe(run.ended_at or run.scheduled_for, task.timezone)} {task.timezone}"

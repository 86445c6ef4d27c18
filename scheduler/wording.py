"""Short words about runs that several sentences share."""

from __future__ import annotations

from duetime.scheduler.rules.times import describe
from duetime.scheduler.task import Run, Task


def when_words(run: Run, task: Task) -> str:
    """Return when a run was or is to be, as a person in the task's zone would write it."""
    return f"{describe(run.ended_at or run.scheduled_for, task.timezone)} {task.timezone}"

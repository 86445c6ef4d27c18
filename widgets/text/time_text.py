"""Says when a task runs: its deadline, its recurrence and where that ends."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from duetime.scheduler.ids import DRY_RUN_ID
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import State
from duetime.widgets.quote import QuoteLimits, quoted, sentences
from duetime.widgets.repeat_policy import approval_in_words, policy_in_words
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.schema.time_parts import Repeat

MAX_TIMES_SHOWN = 3
_COUNT = re.compile(r", (?:once|[0-9]+ times)$")
"""The end of a rule that has a number of times of its own: it is smaller than that of the task, or left out."""


def deadline_in_words(task: TaskPayload) -> str:
    """Say when a task must be finished, or that it was not: `Finish by Tue 24 Nov 17:00 (hard)`; empty without one.

    A length that does not count yet: `Finish within 30 min after it can start (hard)`.
    """
    if task.relative_deadline:
        return f"Finish within {task.relative_deadline.text} ({task.relative_deadline.type})"
    if task.deadline is None:
        return ""
    year = datetime.fromisoformat(task.now).year
    text, kind = task.deadline.text.replace(f" {year} ", " "), task.deadline.type
    return f"Deadline {text} missed ({kind})" if task.deadline.missed else f"Finish by {text} ({kind})"


def repeat_in_words(task: TaskPayload, room: QuoteLimits) -> str:
    """Say how a task repeats, when that ends, and its next times."""
    repeat = task.repeat
    if repeat is None:
        return ""
    shown = room.coming if task.id == DRY_RUN_ID else min(room.coming, MAX_TIMES_SHOWN)
    now = datetime.fromisoformat(task.now)
    shown = 0 if task.paused_until else shown  # the first sentence has the one that comes
    coming = ", ".join(wall(text).replace(f" {now.year} ", " ") for text in times_to_come(task)[:shown])
    policy = f"Policy: {policy_in_words(repeat.policy)}." if repeat.policy else ""
    asks = approval_in_words(repeat.approval, lambda text: quoted(text, room.text)) if repeat.approval else ""
    question = f"Asks the user before each run: {asks}." if asks else ""
    return sentences(f"Repeats {repeat.text}{_end(repeat)}.", policy, question, f"Next: {coming}." if coming else "")


def times_to_come(task: TaskPayload) -> Sequence[str]:
    """Return the next times of a task; the first one is of the run itself, and has come where that is due or runs."""
    times = task.repeat.next if task.repeat else ()
    has_come = bool(times) and datetime.fromisoformat(times[0]) <= datetime.fromisoformat(task.now)
    return times[1:] if has_come or task.state is State.RUNNING else times


def exceptions_in_words(task: TaskPayload) -> str:
    """Say where the next occurrence departs from the rule, and what the rule leaves out."""
    repeat = task.repeat
    if repeat is None:
        return ""
    return sentences(
        f"Only the next one was moved, from {wall(repeat.moved_from)}." if repeat.moved_from else "",
        *(f"{note[:1].upper()}{note[1:]}." for note in repeat.notes or ()),
    )


def _end(repeat: Repeat) -> str:
    until = f" until {wall(repeat.until)}" if repeat.until else ""
    return f"{until}{_times(repeat)}"


def _times(repeat: Repeat) -> str:
    if repeat.max_runs is None or _COUNT.search(repeat.text):
        return ""
    left = f" ({repeat.runs_left} left)" if repeat.runs_left not in (None, repeat.max_runs) else ""
    return f", {repeat.max_runs} time{'' if repeat.max_runs == 1 else 's'}{left}"


def ends_in_words(repeat: Repeat) -> str:
    """Say how a recurrence goes and when it ends: `every day at 09:00 until Mon 30 Nov 2026 23:59, 5 times`."""
    return f"{repeat.text}{_end(repeat)}"


def wall(local: str) -> str:
    """Say a wall time in words, whatever its offset: `Mon 23 Nov 2026 09:00`."""
    return times.describe(datetime.fromisoformat(local).replace(tzinfo=UTC), "UTC")

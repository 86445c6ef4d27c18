"""The words for how a task stands: one word for one look, on cards, in lists and in the text of answers.

The catalogue of the cards translates them; a test compares its English words with these.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Final

from duetime.scheduler.request import REMINDER_ACTION, never_reminds
from duetime.scheduler.rules.series.overtake import is_stopping
from duetime.scheduler.rules.settlement import LATE_AFTER
from duetime.scheduler.rules.states import OPEN, blocked_by, is_held_by_pause
from duetime.scheduler.task import Notify, Run, State, Task, Tier

STATE_LABELS: Final[Mapping[str, str]] = {
    "scheduled": "Scheduled",
    "waiting": "Waiting",
    "ready": "Ready",
    "running": "Running",
    "stopping": "Stopping",
    "suspended": "Suspended",
    "retrying": "Trying again",
    "succeeded": "Succeeded",
    "reminded": "Reminded",
    "failed": "Failed",
    "cancelled": "Cancelled",
    "expired": "Expired",
    "skipped": "Skipped",
    "paused": "Paused",
    "damaged": "Damaged",
    "overdue": "Overdue",
    "blocked": "Blocked",
    "dry_run": "Dry run",
}


def look_of(
    state: State,
    action: str,
    *,
    late: timedelta,
    paused: bool = False,
    damaged: bool = False,
    stopping: bool = False,
    blocked: bool = False,
    notify: Notify | None = None,
) -> str:
    """Return how a task looks: its state, or what stands before that; a reminder that has notified looks so.

    `late` is for how long the run has been due.
    """
    if state not in OPEN:
        return "reminded" if has_reminded(state, action, notify) else state.value
    for look, stands in (("damaged", damaged), ("stopping", stopping), ("paused", paused), ("blocked", blocked)):
        if stands:
            return look
    return "overdue" if state is State.SCHEDULED and late > LATE_AFTER else state.value


def has_reminded(state: State, action: str, notify: Notify | None) -> bool:
    """Whether a run was a reminder that its user was notified of."""
    return state is State.SUCCEEDED and action == REMINDER_ACTION and not never_reminds(action, notify)


def unusual_tier(task: Task) -> Tier | None:
    """Return the tier of a task, None for the usual one, which goes without saying."""
    return None if task.priority is Tier.NORMAL else task.priority


def stands(task: Task, run: Run) -> str:
    """Return the word for how a run stands: its state, or what stands before that."""
    looks = (
        ("paused", is_held_by_pause(run.state, paused=task.paused)),
        ("stopping", run.state in OPEN and is_stopping(run)),
        ("blocked", blocked_by(run) is not None),
        ("unverified", run.unverified is not None),
    )
    return next((look for look, so in looks if so), run.state.value)


def word_of(look: str) -> str:
    """Return the word of a look or a state, as it stands within a sentence."""
    return STATE_LABELS[look].lower()

"""Decides what a button of a card does: the event, and the change of the task."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.instants import snooze_by
from duetime.scheduler.records import Change
from duetime.scheduler.request import Moment
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.time.parser import Frame
from duetime.scheduler.task import TaskRecord

DONE = "done"
"""Marks the outcome as read; the task does not change."""

UNDOES_DONE = "u_done"
"""The token that undoes it."""

UNDO = "undo"
_CHANGE_TOKEN = re.compile(r"u_[0-9]{1,9}")


def is_change_token(text: str) -> bool:
    """Whether a token undoes a change at a revision; any other one undoes a cancel."""
    return _CHANGE_TOKEN.fullmatch(text) is not None


def decide_action(
    action: str,
    now: datetime,
    *,
    minutes: int | None = None,
    until: Moment | None = None,
    undo: str | None = None,
    holidays: str = "",
) -> tuple[EventKind, Callable[[TaskRecord], Change]]:
    """Return the event and the decision of an action; raises InvalidArgument for an unknown action."""
    decisions: dict[str, tuple[EventKind, Callable[[TaskRecord], Change]]] = {
        "snooze": (
            EventKind.SNOOZED,
            lambda record: changes.snooze(record, _snooze_by(record, minutes, until, now, holidays), now),
        ),
        "run_now": (EventKind.RUN_NOW, lambda record: changes.run_now(record, now)),
        "skip_next": (EventKind.SKIPPED, lambda record: changes.skip_next(record, now)),
        UNDO: (EventKind.CANCEL_UNDONE, lambda record: changes.undo_cancel(record, now, undo)),
    }
    if action not in decisions:
        accepted = ", ".join([*decisions, DONE])
        raise InvalidArgument("action", f"no action {action[:40]!r}", accepted=accepted, example="action='run_now'")
    return decisions[action]


def _snooze_by(
    record: TaskRecord, minutes: int | None, until: Moment | None, now: datetime, holidays: str
) -> timedelta | datetime:
    frame = Frame(record.run.scheduled_for, holidays=holidays)
    return snooze_by(record.task.timezone, minutes, until, now, frame)

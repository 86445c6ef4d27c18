"""Whether a run ended as the one before it did, of which a task that notifies of changes says nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from duetime.scheduler.task import Json, Run, State
from duetime.scheduler.waits.approval import UserNotice

_TIME_OF_RUN: Final = re.compile(
    r"(its deadline of|nobody answered until) \w{3} \d{1,2} \w{3} \d{4} \d\d:\d\d(:\d\d)?", re.ASCII
)
"""A time that is another one for each run, in the reasons of ends that no handler words."""


def is_repeated_end(
    previous: Run | None, to: State, summary: str | None = None, error: str | None = None, result: Json = None
) -> bool:
    """Whether the previous run ended in the same state and words, but for the times of the runs, with this result."""
    if previous is None:
        return False
    before = (previous.state, _timeless(previous.summary), _timeless(previous.error), previous.result)
    return before == (to, _timeless(summary), _timeless(error), result)


def quieted(notice: UserNotice) -> UserNotice:
    """Return a notice of which nobody is notified: it counts as read, and goes to no channel."""
    return UserNotice(replace(notice.message, quiet=True, read_at=notice.message.created_at))


def _timeless(text: str | None) -> str | None:
    return None if text is None else _TIME_OF_RUN.sub(r"\1", text)

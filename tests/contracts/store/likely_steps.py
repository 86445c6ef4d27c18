"""Steps of a walk that are likely, and their times: borders are rare where all steps are equally likely.

An undo is taken for seconds, an occurrence is due each hour. So a walk often waits until just before or at such a
moment, and then often does what matters there.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from duetime.scheduler.task import State

UNDO_S: Final = 35
"""Seconds for which an undo is taken, with those of a late click."""

AT_ANY_TIME_S: Final = [0, 1, 20, 34, 61, 700, 2900]
SOON_S: Final = [0, 1, 9, 11]
JUST_BEFORE_S: Final = 10
HOUR_S: Final = 3600


@dataclass(frozen=True)
class Situation:
    """A series that is due each hour: the state of its run, when that is due, and when a change was made last.

    A change that cannot be taken back is none. The question or the wait of a run that waits `ends` at a time; one that
    is scheduled may have `waited`.
    """

    state: State
    due: datetime
    changed: datetime | None
    ends: datetime | None = None
    waited: bool = False

    def seconds(self, draw: random.Random, now: datetime) -> float:
        """Return how long to wait."""
        to_due = (self.due - now).total_seconds()
        if self.may_undo(now):
            is_soon = self.state is State.SCHEDULED and 0 < to_due < UNDO_S
            return draw.choice([*SOON_S * 3, *AT_ANY_TIME_S, *[to_due] * (20 if is_soon else 0)])
        if self.state is State.SCHEDULED and to_due > 0:
            return draw.choice([*AT_ANY_TIME_S, *[to_due] * 6, *[max(to_due - JUST_BEFORE_S, 0)] * 4])
        before = HOUR_S - (now.minute * 60 + now.second) - JUST_BEFORE_S
        to_end = (self.ends - now).total_seconds() if self.ends and self.ends > now else 0
        return draw.choice([*AT_ANY_TIME_S, *[max(before, 0)] * 4, *[to_end] * 4])

    def names(self, now: datetime, of_waiting: Sequence[str], of_late: Sequence[str] = ()) -> list[str]:
        """Return the names of the steps that are likely now, some of them more than once.

        Just before the next occurrence, a run that waits is often skipped: an undo then comes while the next one waits.
        """
        may_undo = self.may_undo(now)
        undo = ["undo"] * 10 if may_undo else []
        if self.state is State.SCHEDULED and self.due <= now:
            return ["undo"] * 20 if may_undo and self.waited else [*undo[:5], *["look"] * 20]
        if self.state is not State.WAITING:
            return undo
        skip = ["skip"] * 10 if now.minute * 60 + now.second >= HOUR_S - JUST_BEFORE_S else []
        late = [*of_late] * 10 if self.ends and self.ends <= now else []
        return [*undo[:4], *skip, *late, *of_waiting, *(of_waiting if may_undo else ())]

    def may_undo(self, now: datetime) -> bool:
        """Whether the last change can still be taken back."""
        return self.changed is not None and (now - self.changed).total_seconds() < UNDO_S

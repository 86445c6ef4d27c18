"""Preemption: runs give way when more urgent ones have waited for a thread for longer than they may.

Giving way is cooperative: a handler that never calls `ctx.should_yield()` loses nothing and gives nothing. A run that
gave way once is asked again only after it got further, so that two runs never push each other aside for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from duetime.scheduler.rules.headroom import Headroom

YIELD_NOTICE_MS: Final = 1500.0
"""Milliseconds before a waiting run is late at which others are asked: so long a handler has to save its state.

As long as a critical run without a deadline may wait at most, so for these others are asked at once.
"""

YIELD_PATIENCE_S: Final = 5.0
"""Seconds for which a run that was asked counts as giving way; one that has not by then may never do it."""

MIN_TURN_S: Final = 10.0
"""Seconds after which a run that started anew may be asked again though it has neither saved nor shown any progress."""


@dataclass(frozen=True, slots=True)
class RunningTurn:
    """A run on a thread of this worker, in its current turn: since it was last started.

    `seconds` is how long that is ago. `anew` says that an earlier attempt was interrupted, gave way or failed,
    `progressed` that this one saved a checkpoint or showed progress, `polls` that its handler ever called
    `should_yield`. `asked` is how many seconds ago it was asked to give way, None when it was not.
    """

    run_id: str
    tier: int
    seconds: float
    anew: bool = False
    progressed: bool = False
    polls: bool = False
    asked: float | None = None

    @property
    def may_be_asked(self) -> bool:
        """Whether it was not asked yet, and got further since it was started anew."""
        return self.asked is None and (not self.anew or self.progressed or self.seconds >= MIN_TURN_S)


def runs_to_ask(preemptors: Sequence[int], turns: Sequence[RunningTurn], *, idle: int, headroom: Headroom) -> list[str]:
    """Return the runs to ask now, so that `preemptors`, the tiers of runs that wait for a thread, can start.

    As many give way as threads are missing, counting those that were asked a moment ago. Each is less urgent than whom
    it makes room for. Handlers that poll go first, then the least urgent tiers, then what has run for the least time.
    """
    giving = sum(turn.asked is not None and turn.asked < YIELD_PATIENCE_S for turn in turns)
    order = sorted(turns, key=lambda turn: (not turn.polls, -turn.tier, turn.seconds, turn.run_id))
    asked: list[str] = []
    for number, tier in enumerate(sorted(preemptors), 1):
        missing = headroom[tier - 1] + number - idle - giving - len(asked)
        able = [turn.run_id for turn in order if turn.tier > tier and turn.may_be_asked and turn.run_id not in asked]
        asked += able[: max(0, missing)]
    return asked

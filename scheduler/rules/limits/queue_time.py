"""The time of a queue: it goes on at the pace of a clock that somebody may set back, and never goes back itself.

All that lasts (leases, pauses, rates) is measured in it. What is set by the wall (keys, hours and windows of the
calendar) follows the clock. `redis/lua/state.lua` and `pools.lua` repeat this arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from duetime.scheduler.rules.limits.admission import Limits

TOLERATED_MS = 1000.0
"""So much a clock may step back without any consequence but that time stands still until it is there again."""


@dataclass(frozen=True, slots=True)
class QueueTime:
    """The time is `now`, in milliseconds since 1970, which the clock on the wall is `behind` by.

    When it was last set back it had shown `shown` already, and was behind by `behind_then`.
    """

    now: float
    behind: float = 0.0
    shown: float = 0.0
    behind_then: float = 0.0

    def at(self, wall: float) -> QueueTime:
        """Return the time when the clock shows `wall`."""
        now = wall + self.behind
        if now >= self.now - TOLERATED_MS:
            return replace(self, now=max(self.now, now))
        shown, behind_then = self.shown, self.behind_then
        if self.now - self.behind > shown:
            shown, behind_then = self.now - self.behind, self.behind
        return QueueTime(self.now, self.behind + (self.now - now), shown, behind_then)

    @property
    def wall(self) -> float:
        """The time that the clock shows."""
        return self.now - self.behind

    def limits(self, limits: Limits) -> Limits:
        """Return limits whose steps and resets are times of the queue; a window that the clock ended once is over."""
        if self.behind == 0:
            return limits
        steps = tuple((at + self.behind, capacity) for at, capacity in limits.steps)
        resets = tuple(at + (self.behind_then if at <= self.shown else self.behind) for at in limits.resets)
        return replace(limits, steps=steps, resets=resets)

"""Queue time: it advances with a clock that may be set back, and never goes back itself.

Durations (leases, pauses, rates) are measured in it. Times of the wall clock (keys, hours and windows of the calendar)
follow the clock. Twins: `redis/lua/state.lua` and `redis/lua/pools.lua`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from duetime.scheduler.rules.limits.admission import Limits

MAX_CLOCK_STEP_MS = 1000.0
"""Milliseconds that a clock may step back while queue time just stands still until it has caught up."""


@dataclass(frozen=True, slots=True)
class QueueTime:
    """The time is `now`, in milliseconds since 1970; the wall clock is `behind` ms behind it.

    When it was last set back it had shown `shown` already, and was behind by `behind_then`.
    """

    now: float
    behind: float = 0.0
    shown: float = 0.0
    behind_then: float = 0.0

    def at(self, wall: float) -> QueueTime:
        """Return the queue time when the wall clock shows `wall`."""
        now = wall + self.behind
        if now >= self.now - MAX_CLOCK_STEP_MS:
            return replace(self, now=max(self.now, now))
        shown, behind_then = self.shown, self.behind_then
        if self.now - self.behind > shown:
            shown, behind_then = self.now - self.behind, self.behind
        return QueueTime(self.now, self.behind + (self.now - now), shown, behind_then)

    @property
    def wall(self) -> float:
        """The time of the wall clock."""
        return self.now - self.behind

    def limits(self, limits: Limits) -> Limits:
        """Return limits with steps and resets in queue time; a window that has ended once stays ended."""
        if self.behind == 0:
            return limits
        steps = tuple((at + self.behind, capacity) for at, capacity in limits.steps)
        resets = tuple(at + (self.behind_then if at <= self.shown else self.behind) for at in limits.resets)
        return replace(limits, steps=steps, resets=resets)

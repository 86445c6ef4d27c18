"""Queue time: it advances with a clock that may be set back, and never goes back itself.

Durations (leases, pauses, rates) are measured in it. Times of the wall clock (keys, hours and windows of the calendar)
follow the clock. Twins: `redis/lua/state/state.lua` and `redis/lua/admission/pools.lua`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from duetime.scheduler.rules.limits.admission import Limits

MAX_CLOCK_STEP_MS = 1000.0
"""Milliseconds that a clock may step back while queue time just stands still until it has caught up."""


@dataclass(frozen=True, slots=True)
class QueueTime:
    """The time is `now`, in milliseconds since 1970; the wall clock is `wall_lag` ms behind it.

    When it was last set back it had shown `shown` already, and was behind by `wall_lag_then` ms.
    """

    now: float
    wall_lag: float = 0.0
    shown: float = 0.0
    wall_lag_then: float = 0.0

    def at(self, wall: float) -> QueueTime:
        """Return the queue time when the wall clock shows `wall`."""
        now = wall + self.wall_lag
        if now >= self.now - MAX_CLOCK_STEP_MS:
            return replace(self, now=max(self.now, now))
        shown, wall_lag_then = self.shown, self.wall_lag_then
        if self.now - self.wall_lag > shown:
            shown, wall_lag_then = self.now - self.wall_lag, self.wall_lag
        return QueueTime(self.now, self.wall_lag + (self.now - now), shown, wall_lag_then)

    @property
    def wall(self) -> float:
        """The time of the wall clock."""
        return self.now - self.wall_lag

    def limits(self, limits: Limits) -> Limits:
        """Return limits with steps and resets in queue time; a window that has ended once stays ended."""
        if self.wall_lag == 0:
            return limits
        steps = tuple((at + self.wall_lag, capacity) for at, capacity in limits.steps)
        resets = tuple(at + (self.wall_lag_then if at <= self.shown else self.wall_lag) for at in limits.resets)
        return replace(limits, steps=steps, resets=resets)

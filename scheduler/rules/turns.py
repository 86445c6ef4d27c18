"""Turns among the tenants of one tier: the tenant that was served longest ago is next. Twin: lua/turns.lua.

`rules.shares` and the key decide when a tier is served. Within the tier, the run with the smallest key goes first if
its deadline orders it and can still be kept. Else the tenants take turns, and each starts its own best run. A backlog
of 10,000 runs delays another tenant by one run, not by 10,000. This is start-time fair queueing (Goyal, Vin & Cheng
1996) with runs of equal length, whose virtual start is a time in milliseconds. A tenant starts where it was served
last, a new one now. Keys are unchanged, so no turn makes a tier more or less urgent than its oldest run.

While a tenant waits with a run that may start, each other tenant takes at most one turn. A served tenant goes behind
it, and so does every later one. Runs that go by their deadline take no turn of another tenant; they count as the last
turn of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from duetime.scheduler.rules.shares import TIER_COUNT

TENANT_FORGOTTEN_AFTER_MS = 3_600_000.0
"""Milliseconds after which a tenant without a start is removed; it then counts as new."""

TURN_STEP_MS = 1 / 1024
"""Between two turns of the same millisecond; exact in a double until the year 2100."""


def goes_out_of_turn(by_deadline: bool, key: float, now: float) -> bool:
    """Whether the best run of a tier goes whoever's turn it is: its deadline orders it, and can still be kept."""
    return by_deadline and key >= now


@dataclass(slots=True)
class Turns:
    """When each tenant was served last, by tier; `last` is the latest. Turns rise even when the clock does not."""

    last: float = 0.0
    at: tuple[dict[str, float], ...] = field(default_factory=lambda: tuple({} for _ in range(TIER_COUNT)))

    def of(self, tier: int, tenant: str) -> float:
        return self.at[tier - 1].get(tenant, 0.0)

    def entered(self, tier: int, tenant: str, now: float) -> None:
        """Record that a tenant has a run: an unknown tenant goes behind all known ones."""
        if tenant not in self.at[tier - 1]:
            self._note(tier, tenant, now)

    def served(self, tier: int, tenant: str, now: float) -> float:
        """Record that a run of a tenant starts, remove tenants without a recent start, and return the turn."""
        at = self.at[tier - 1]
        at.pop(tenant, None)
        turn = self._note(tier, tenant, now)
        while (oldest := next(iter(at))) != tenant and at[oldest] < now - TENANT_FORGOTTEN_AFTER_MS:
            del at[oldest]
        return turn

    def _note(self, tier: int, tenant: str, now: float) -> float:
        self.last = max(now, self.last + TURN_STEP_MS)
        self.at[tier - 1][tenant] = self.last
        return self.last

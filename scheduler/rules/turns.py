"""Turns among the tenants of one tier: the tenant that was served longest ago is next. Twin: lua/order/turns.lua.

`rules.shares` and the key decide when a tier is served. Within the tier, the run with the smallest key goes first if
its deadline orders it and can still be kept. Else the tenants take turns, and each starts its own best run. A backlog
of 10,000 runs delays another tenant by one run, not by 10,000. This is start-time fair queueing (Goyal, Vin & Cheng
1996) with runs of equal length, whose virtual start is a time in milliseconds. A tenant starts where it was served
last, a new one now. Keys are unchanged, so no turn makes a tier more or less urgent than its oldest run.

A run that goes by its deadline goes out of turn. It counts as the last turn of its tenant. A tenant may start one only
if each tenant that waits was served, or was new, after its last start out of turn. So each other
tenant starts at most two runs before one that waits with a run that may start. One goes in its turn, and one out of
turn; both put their tenant behind the one that waits.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from duetime.scheduler.rules.shares import TIER_COUNT

TENANT_FORGOTTEN_AFTER_MS = 3_600_000.0
"""Milliseconds after which a tenant without a start is removed; it then counts as new."""

TURN_STEP_MS = 1 / 1024
"""Between two turns of the same millisecond; exact in a double until the year 2100."""


def goes_out_of_turn(by_deadline: bool, key: float, now: float) -> bool:
    """Whether a run may go whoever's turn it is: its deadline orders it, and can still be kept."""
    return by_deadline and key >= now


def _by_tier() -> tuple[dict[str, float], ...]:
    return tuple({} for _ in range(TIER_COUNT))


@dataclass(slots=True)
class Turns:
    """When each tenant was served last, by tier, and when last out of turn, as a turn number.

    `last` is the latest turn. Turns rise even when the clock does not.
    """

    last: float = 0.0
    at: tuple[dict[str, float], ...] = field(default_factory=_by_tier)
    out_of_turn_at: tuple[dict[str, float], ...] = field(default_factory=_by_tier)

    def of(self, tier: int, tenant: str) -> float:
        return self.at[tier - 1].get(tenant, 0.0)

    def is_barred(self, tier: int, tenant: str, turn: float) -> bool:
        """Whether a tenant may start nothing out of turn while another one waits whose last turn was `turn`."""
        return self.out_of_turn_at[tier - 1].get(tenant, 0.0) > turn

    def entered(self, tier: int, tenant: str, now: float) -> None:
        """Record that a tenant has a run: an unknown tenant goes behind all known ones."""
        if tenant not in self.at[tier - 1]:
            self._note(self.at[tier - 1], tenant, now)

    def served(self, tier: int, tenant: str, now: float, *, out_of_turn: bool = False) -> float:
        """Record that a run of a tenant starts, remove tenants without a recent start, and return the turn."""
        turn = self._note(self.at[tier - 1], tenant, now)
        if out_of_turn:
            _put_last(self.out_of_turn_at[tier - 1], tenant, turn)
        for at in (self.at[tier - 1], self.out_of_turn_at[tier - 1]):
            while at and at[oldest := next(iter(at))] < now - TENANT_FORGOTTEN_AFTER_MS:
                del at[oldest]
        return turn

    def _note(self, at: dict[str, float], tenant: str, now: float) -> float:
        self.last = max(now, self.last + TURN_STEP_MS)
        _put_last(at, tenant, self.last)
        return self.last


def _put_last(at: dict[str, float], tenant: str, turn: float) -> None:
    at.pop(tenant, None)
    at[tenant] = turn

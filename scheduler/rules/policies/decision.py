"""The record of a decision of the queue, and its replay: from what a look saw, the run that a policy chooses.

A take looks at one run after another, as `rules.shares` and `rules.turns` choose them. It starts each, or parks it on
the pool that it lacks. The record has all that the choice depends on, apart from the turns of tenants. It has the run
of the tenant whose turn it was, in the tier that was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from duetime.scheduler.rules.headroom import NO_HEADROOM, Headroom, may_start
from duetime.scheduler.rules.shares import ShareBalance, Shares, choose
from duetime.scheduler.rules.turns import goes_out_of_turn

NO_NEW_KEYS: Final[Mapping[str, float]] = {}


@dataclass(frozen=True, slots=True)
class Contender:
    """A run that could have been chosen: the best of its tier, or of the tenant whose turn it was.

    `by_deadline`: its deadline may let it go out of turn.
    """

    run_id: str
    key: float
    tenant: str = ""
    by_deadline: bool = False


@dataclass(frozen=True, slots=True)
class PoolSeen:
    """A pool that the run needs: `free` units at the look, None when it is undeclared, and why it lacked any."""

    pool: str
    units: float
    free: float | None = None
    lacked: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """One look of a take, at wall time `at` in milliseconds since 1970. Lists are by tier, critical first.

    `owed` and `room` are the balance of the shares, `heads` the best run of each tier. `idle` threads were left, of
    which `headroom` are reserved. `run`, of `tier` (1 to 5), was looked at: it started unless a pool lacked units. It
    was looked at `out_of_turn` to keep its deadline, while it was the turn of another tenant.
    """

    at: float
    policy: int
    idle: int
    owed: tuple[float, ...]
    room: tuple[float, ...]
    heads: tuple[Contender | None, ...]
    tier: int
    run: Contender
    pools: tuple[PoolSeen, ...] = ()
    headroom: Headroom = NO_HEADROOM
    out_of_turn: bool = False

    @property
    def lacked(self) -> PoolSeen | None:
        """The pool on which the run was parked; None when it started."""
        return next((pool for pool in self.pools if pool.lacked), None)


def chosen_tier(
    look: Look, shares: Shares, *, keys: Mapping[str, float] = NO_NEW_KEYS, headroom: Headroom | None = None
) -> int | None:
    """Return the tier that these shares choose, 1 to 5; None when no run may start.

    `keys` replace those of the record, by run; `headroom` replaces its headroom.
    """
    kept = look.headroom if headroom is None else headroom
    heads = [
        keys.get(head.run_id, head.key) if head is not None and may_start(kept, tier, look.idle) else None
        for tier, head in enumerate(look.heads, 1)
    ]
    tier = choose(shares, ShareBalance([*look.owed], [*look.room]), heads, look.at)
    return None if tier is None else tier + 1


def replay_decision(
    look: Look, shares: Shares, *, keys: Mapping[str, float] = NO_NEW_KEYS, headroom: Headroom | None = None
) -> tuple[int, Contender] | None:
    """Return the tier and the run that these shares choose; None when no run may start.

    In another tier than the recorded one it is the best run by key: whose turn it was there is not recorded.
    """
    tier = chosen_tier(look, shares, keys=keys, headroom=headroom)
    head = look.heads[tier - 1] if tier is not None else None
    if tier is None or head is None:
        return None
    key = keys.get(head.run_id, head.key)
    takes_turns = bool(head.tenant) and not goes_out_of_turn(head.by_deadline, key, look.at)
    return (tier, look.run if takes_turns and tier == look.tier else head)

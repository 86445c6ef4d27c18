"""Admission to a pool: the arithmetic of slots, rates and budgets, and when waiting alone will help.

The queue in memory calls this; the Lua scripts repeat it, number by number, so it uses nothing that a double does not
have. Times are milliseconds since 1970, `tier` is 1 (critical) to 5 (background).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

RECOVERY = 60_000.0
"""Milliseconds in which a pool that was throttled to nothing would be whole again: recovery is additive in time."""

LOOK_AGAIN = 1000.0
"""Milliseconds until what waits for a throttled pool is looked at again while it recovers."""

HIGHER_TIERS = 2
"""Headroom is kept for tiers up to this one: critical and high."""


class Kind(StrEnum):
    """How a pool counts: units in use, units by a token bucket, units in a window of the calendar."""

    SLOTS = "slots"
    RATE = "rate"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a pool, as a queue knows them.

    `capacity` is what can be reserved at once: slots, the size of the bucket, the budget of a window. From each of
    `steps` (time, capacity) on another capacity holds; at each of `resets` a window ends. `refill` is in units a
    millisecond. `headroom` is the part that only critical and high may use. A breaker opens after `failures` in a row,
    or when of at least `samples` outcomes a part of `error_rate` failed, for `cooldown` ms; 0 failures is no breaker.
    Calls slower than `latency` ms count as overload, 0 asks for nothing.
    """

    kind: Kind
    capacity: float
    refill: float = 0.0
    headroom: float = 0.0
    steps: tuple[tuple[float, float], ...] = ()
    resets: tuple[float, ...] = ()
    failures: int = 0
    error_rate: float = 1.0
    samples: int = 20
    cooldown: float = 30_000.0
    latency: float = 0.0


@dataclass(slots=True)
class PoolState:
    """How a pool stands, as of `at`.

    `used` are units in use or reserved, whatever the kind, so that a pool may change its kind; `spent` are those of the
    window that are settled, `level` is in the bucket.
    `factor` is what throttling has left of the capacity; since its last cut at `cut_at`, `good` calls were answered and
    `bad` ones refused. Nothing is admitted before `stopped_until` (a provider said so) and `open_until` (the breaker);
    once that has passed, `probe` is the one run that tries, and `trips` says how often in a row that failed. `failing`
    counts failures in a row, `errors` is the smoothed part that failed of `seen`. `hold` is an overdue run that has
    first call, and `hold_key` its key.
    """

    at: float = 0.0
    used: float = 0.0
    spent: float = 0.0
    level: float = 0.0
    factor: float = 1.0
    cut_at: float = 0.0
    good: int = 0
    bad: int = 0
    stopped_until: float = 0.0
    open_until: float = 0.0
    trips: int = 0
    probe: str = ""
    failing: int = 0
    errors: float = 0.0
    seen: int = 0
    hold: str = ""
    hold_key: float = 0.0


def capacity(limits: Limits, now: float) -> float:
    """Return the capacity that holds at `now`."""
    found = limits.capacity
    for at, then in limits.steps:
        if at <= now:
            found = then
    return found


def opens(limits: Limits, now: float) -> float | None:
    """Return when a pool that has no capacity now will have some; None when that is not known, or it has some."""
    later = [at for at, then in limits.steps if at > now and then > 0]
    return min(later, default=None) if capacity(limits, now) <= 0 else None


def advanced(limits: Limits, state: PoolState, now: float) -> PoolState:
    """Return the state as of `now`: the bucket refilled, past windows closed, throttling recovered.

    Only what is spent beyond a window's budget is carried into the next: over-use is debt.
    """
    passed = max(0.0, now - state.at)
    if passed == 0:
        return state
    level, spent = state.level, state.spent
    factor = min(1.0, state.factor + passed / RECOVERY)
    if limits.kind is Kind.RATE:
        level = min(_bucket(limits, factor), level + limits.refill * _running(state.factor, passed))
        level = max(level, min(state.level, limits.capacity))
    for reset in limits.resets:
        if state.at < reset <= now:
            spent = max(0.0, spent - limits.capacity)
    return replace(state, at=now, level=level, spent=spent, factor=factor)


def _running(factor: float, passed: float) -> float:
    """Return how many of the `passed` milliseconds a bucket was filled at its full rate: the integral of the factor."""
    rising = min(passed, (1 - factor) * RECOVERY)
    return factor * rising + rising * rising / (2 * RECOVERY) + (passed - rising)


def _bucket(limits: Limits, factor: float) -> float:
    """Return the size of a throttled bucket: one unit fits in whatever happens."""
    return max(min(1.0, limits.capacity), limits.capacity * factor)


def free(limits: Limits, state: PoolState, tier: int, now: float) -> float:
    """Return how many units a run of `tier` may reserve now; `state` is as of `now`.

    Throttling takes from the lowest tiers first: background feels it five times over, critical not beyond the cut.
    """
    if now < state.stopped_until or now < state.open_until or (state.open_until > 0 and state.probe):
        return 0.0
    whole = capacity(limits, now)
    whole = max(min(1.0, whole), whole * state.factor)
    kept = (1 - state.factor) * (tier - 1) / 4
    if tier > HIGHER_TIERS:
        kept = max(kept, limits.headroom)
    if limits.kind is Kind.RATE:
        return state.level - whole * kept
    return whole - whole * kept - state.used - state.spent


def most(limits: Limits, tier: int, now: float) -> float:
    """Return how many units a run of `tier` could reserve at `now` if nobody else had any."""
    return free(limits, PoolState(level=limits.capacity), tier, now)


def in_reach(limits: Limits, state: PoolState, tier: int, now: float) -> float:
    """Return how many units a run of `tier` could reserve now if all who have some gave them back unused."""
    return free(limits, replace(state, used=0.0, level=state.level + state.used), tier, now)


def helped_at(limits: Limits, state: PoolState, units: float, tier: int, now: float) -> float | None:
    """Return when time alone may let `units` in, None when only a release can; `state` is as of `now`."""
    blocked = max(state.stopped_until, state.open_until)
    if blocked > now:
        return blocked
    times = [at for at, _ in limits.steps if at > now][:1] + [at for at in limits.resets if at > now][:1]
    if state.factor < 1:
        times.append(now + LOOK_AGAIN)
    full = replace(state, level=_bucket(limits, state.factor))
    if limits.kind is Kind.RATE and limits.refill > 0 and units <= free(limits, full, tier, now):
        lacking = units - free(limits, state, tier, now)
        times.append(now + max(1.0, lacking / (limits.refill * state.factor)))
    return math.ceil(min(times)) if times else None


def reserve(limits: Limits, state: PoolState, run_id: str, units: float) -> None:
    """Take `units` for a run; the first after a breaker's pause is its probe. `state` is as of now and is changed."""
    state.used += units
    if limits.kind is Kind.RATE:
        state.level -= units
    if 0 < state.open_until <= state.at and not state.probe:
        state.probe = run_id
    if state.hold == run_id:
        state.hold, state.hold_key = "", 0.0


def release(limits: Limits, state: PoolState, run_id: str, units: float, actual: float | None) -> None:
    """Give back what a run had reserved: `actual` of it was used, all when None. `state` is as of now and is changed.

    Unused units can be used again at once; over-use leaves the bucket in debt, or is spent of the window.
    """
    used = units if actual is None else actual
    state.used -= units
    if limits.kind is Kind.RATE:
        state.level = min(limits.capacity, state.level + units - used)
    if limits.kind is Kind.BUDGET:
        state.spent += used
    if state.probe == run_id:
        state.probe = ""

"""Admission to a pool: the arithmetic of slots, rates and budgets, and when time alone will help.

The queue in memory calls this. Its twin `lua/admission/pools.lua` repeats it, number by number, so it uses only
operations that a double has. Times are milliseconds since 1970, `tier` is 1 (critical) to 5 (background).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from duetime.scheduler.rules.limits.start_log import StartLog, add_start, current, remove_start, room_at, total

THROTTLE_RECOVERY_MS = 60_000.0
"""Milliseconds in which a fully throttled pool recovers: recovery is linear in time."""

THROTTLE_CHECK_INTERVAL_MS = 1000.0
"""Milliseconds until the runs parked on a throttled pool are examined again while it recovers."""

HEADROOM_TIER_COUNT = 2
"""Last tier that may use the headroom: critical and high."""


class Kind(StrEnum):
    """The way in which a pool counts: units in use, units of a token bucket, units in a calendar window."""

    SLOTS = "slots"
    RATE = "rate"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a pool, for a queue.

    `capacity` is the number of units that can be reserved at once: slots, the size of the bucket, the budget of a
    window. At each of `steps` (time, capacity) the capacity changes; at each of `resets` a window ends. `refill` is in
    units per millisecond. `headroom` is the part that only critical and high may use. A breaker opens for `cooldown` ms
    after `failures` in a row, or when a part of `error_rate` of at least `samples` outcomes failed. With `failures` of
    0 there is no breaker. Calls slower than `latency` ms count as overload; 0 disables this. A rate with a `window`, in
    ms, also starts at most `window_units` in any window of that length; 0 means none.
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
    window: float = 0.0
    window_units: float = 0.0

    @property
    def slides(self) -> bool:
        """Whether a log counts the starts."""
        return self.kind is Kind.RATE and self.window > 0


@dataclass(slots=True)
class PoolState:
    """The state of a pool, as of `at`.

    `used` are units in use or reserved, whatever the kind, so that a pool may change its kind. `spent` are the settled
    units of the window, `level` is in the bucket. `started` are the units in the sliding `log`. `factor` is the part of
    the capacity that throttling left; since its last cut at `cut_at`, `good` calls were answered and `bad` refused.

    Nothing is admitted before `stopped_until` (set by a provider) and `open_until` (set by the breaker). After that
    `probe` is the one run that tries, and `trips` counts failed probes in a row. `failing` counts failures in a row,
    `errors` is the smoothed failed part of `seen`. Units are held for the overdue run `hold`, parked on
    another pool, before `hold_until`. `owed` are the starts that each tier has earned while runs of it held the pool.
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
    hold_until: float = 0.0
    owed: tuple[float, ...] = (0.0, 0.0, 0.0, 0.0, 0.0)
    log: StartLog = ()
    started: float = 0.0

    def relog(self, log: StartLog) -> None:
        self.log, self.started = log, total(log)


def capacity(limits: Limits, now: float) -> float:
    """Return the capacity at `now`."""
    found = limits.capacity
    for at, then in limits.steps:
        if at <= now:
            found = then
    return found


def opens_at(limits: Limits, now: float) -> float | None:
    """Return when a pool without capacity at `now` will have some; None when that is unknown, or it has some."""
    later = [at for at, then in limits.steps if at > now and then > 0]
    return min(later, default=None) if capacity(limits, now) <= 0 else None


def advance(limits: Limits, state: PoolState, now: float) -> PoolState:
    """Return the state as of `now`: the bucket refilled, past windows closed, throttling recovered.

    Units spent beyond a window's budget are debt of the next window; nothing else is carried over.
    """
    passed = max(0.0, now - state.at)
    if passed == 0:
        return state
    level, spent = state.level, state.spent
    factor = min(1.0, state.factor + passed / THROTTLE_RECOVERY_MS)
    if limits.kind is Kind.RATE:
        level = min(_bucket(limits, factor), level + limits.refill * _running(state.factor, passed))
        level = max(level, min(state.level, limits.capacity))
    for reset in limits.resets:
        if state.at < reset <= now:
            spent = max(0.0, spent - limits.capacity)
    found = replace(state, at=now, level=level, spent=spent, factor=factor)
    if state.log and state.log[0][0] + limits.window <= now:
        found.relog(current(state.log, limits.window, now))
    return found


def _running(factor: float, passed: float) -> float:
    """Return how many of the `passed` milliseconds a bucket was filled at its full rate: the integral of the factor."""
    rising = min(passed, (1 - factor) * THROTTLE_RECOVERY_MS)
    return factor * rising + rising * rising / (2 * THROTTLE_RECOVERY_MS) + (passed - rising)


def _bucket(limits: Limits, factor: float) -> float:
    """Return the size of a throttled bucket: at least one unit fits."""
    return max(min(1.0, limits.capacity), limits.capacity * factor)


def available(limits: Limits, state: PoolState, tier: int, now: float) -> float:
    """Return the number of units that a run of `tier` may reserve now; `state` is as of `now`.

    Throttling takes from the lowest tiers first: from background five times the cut, from critical only the cut itself.
    """
    if now < state.stopped_until or now < state.open_until or (state.open_until > 0 and state.probe):
        return 0.0
    whole = capacity(limits, now)
    whole = max(min(1.0, whole), whole * state.factor)
    kept = (1 - state.factor) * (tier - 1) / 4
    if tier > HEADROOM_TIER_COUNT:
        kept = max(kept, limits.headroom)
    if limits.kind is not Kind.RATE:
        return whole - whole * kept - state.used - state.spent
    left = state.level - whole * kept
    if limits.slides:
        left = min(left, limits.window_units - limits.window_units * kept - state.started)
    return left


def spent_after_change(before: Limits, after: Limits, state: PoolState, stored: float) -> float:
    """Return the spent units of a pool with new limits; `stored` are those of a new budget's window.

    Only a budget has any: those of one that becomes slots would never be given back.
    """
    if after.kind is not Kind.BUDGET:
        return 0.0
    return state.spent if before.kind is Kind.BUDGET else stored


def units_in_use(limits: Limits, state: PoolState) -> float:
    """Return the units in use, or of a rate those that cannot be taken now; `state` is as of now."""
    if limits.kind is not Kind.RATE:
        return state.used
    left = min(state.level, limits.window_units - state.started) if limits.slides else state.level
    return limits.capacity - left


def most_available(limits: Limits, tier: int, now: float) -> float:
    """Return the number of units that a run of `tier` could reserve at `now` if nothing else were reserved."""
    return available(limits, PoolState(level=limits.capacity), tier, now)


def available_if_released(limits: Limits, state: PoolState, tier: int, now: float) -> float:
    """Return the number of units that a run of `tier` could reserve now if all reserved ones came back unused."""
    unused = replace(state, used=0.0, level=state.level + state.used, started=max(0.0, state.started - state.used))
    return available(limits, unused, tier, now)


def available_in_time(limits: Limits, state: PoolState, tier: int, now: float) -> float:
    """Return the number of units that a run of `tier` could reserve once all are released and the bucket is full."""
    return available(limits, replace(state, used=0.0, level=_bucket(limits, state.factor), started=0.0), tier, now)


def free_at(limits: Limits, state: PoolState, units: float, tier: int, now: float) -> float | None:
    """Return when time alone may admit `units`, None when only a release can; `state` is as of `now`."""
    blocked = max(state.stopped_until, state.open_until)
    if blocked > now:
        return blocked
    times = [at for at, _ in limits.steps if at > now][:1] + [at for at in limits.resets if at > now][:1]
    if state.factor < 1:
        times.append(now + THROTTLE_CHECK_INTERVAL_MS)
    full = replace(state, level=_bucket(limits, state.factor), started=0.0)
    if limits.kind is Kind.RATE and units <= available(limits, full, tier, now):
        times += [at for at in (_rate_helps_at(limits, state, units, tier, now),) if at is not None]
    return math.ceil(min(times)) if times else None


def _rate_helps_at(limits: Limits, state: PoolState, units: float, tier: int, now: float) -> float | None:
    """Return when the bucket holds the units and the window has room for them; None when the bucket never will."""
    times = [now + 1.0]
    lacking = units - available(limits, replace(state, started=-math.inf), tier, now)
    if lacking > 0:
        if limits.refill == 0:
            return None
        times.append(now + lacking / (limits.refill * state.factor))
    if limits.slides:
        crowded = units - available(limits, replace(state, level=math.inf), tier, now)
        left_at = room_at(state.log, crowded, limits.window) if crowded > 0 else None
        times += [left_at] if left_at is not None else []
    return max(times)


def reserve(limits: Limits, state: PoolState, run_id: str, units: float) -> None:
    """Reserve `units` for a run; the first after a breaker's pause is its probe.

    Changes `state`, which is as of `now`.
    """
    state.used += units
    if limits.kind is Kind.RATE:
        state.level -= units
    if limits.slides:
        state.relog(add_start(state.log, state.at, units, limits.window))
    if 0 < state.open_until <= state.at and not state.probe:
        state.probe = run_id
    if state.hold == run_id:
        state.hold, state.hold_until = "", 0.0


def release(
    limits: Limits,
    state: PoolState,
    run_id: str,
    units: float,
    actual: float | None,
    *,
    granted: float = 0.0,
    began: float = 0.0,
) -> None:
    """Release the reservation of a run, which used `actual` of it (all when None).

    It was `granted` and `began` at these times. Changes `state`, which is as of `now`. Unused units are free at once;
    over-use leaves the bucket in debt, or is spent of the window. A sliding window counts the use from when it began.
    """
    used = units if actual is None else actual
    state.used -= units
    if limits.kind is Kind.RATE:
        state.level = min(limits.capacity, state.level + units - used)
    if limits.slides:
        log = remove_start(state.log, granted, units, limits.window)
        counts = used > 0 and began + limits.window > state.at
        state.relog(add_start(log, began, used, limits.window) if counts else log)
    if limits.kind is Kind.BUDGET:
        state.spent += used
    if state.probe == run_id:
        state.probe = ""

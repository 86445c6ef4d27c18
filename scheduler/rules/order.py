"""The order of runs: one number per run, in milliseconds since 1970, smaller first.

    order_key = min(deadline - p90, first_ready + patience[tier]) - unblock bonus + cost term

| term | what it is, and its source |
|---|---|
| `deadline - p90` | the latest start, an instant: least laxity first, Dertouzos & Mok 1989 (IEEE TSE 15:12) |
| `first_ready + patience` | when waiting becomes urgent, an instant: ageing, as in CTSS (Corbato 1962) |
| unblock bonus | milliseconds: urgency inherited from what waits, after Sha, Rajkumar & Lehoczky 1990 |
| cost term | milliseconds: effort against value, Smith 1956 ("Various optimizers", Naval Res. Log. Q. 3) |

While a run waits, laxity, patience left, bonus and cost are each constant or fall by one second a second. Their order
does not change with time. The key is computed once and stays right until an estimate, a deadline or what waits for the
run changes. Runs of different tiers compare by the same number; `rules.shares` decides when a tier is owed a turn
whatever the key says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from duetime.scheduler.task import Penalty, Tier

PATIENCE: Final[Mapping[Tier, timedelta]] = {
    Tier.CRITICAL: timedelta(seconds=1),
    Tier.HIGH: timedelta(seconds=30),
    Tier.NORMAL: timedelta(minutes=5),
    Tier.LOW: timedelta(minutes=30),
    Tier.BACKGROUND: timedelta(hours=4),
}
"""The wait of a run of each tier, from when it first could start, before it counts as urgent.

Longer than the deadlines that runs of a tier usually have, on purpose. A run that has used up its patience goes before
every run of now, and under overload that is the one that has waited longest. With patience of a minute for normal runs
and an hour for background ones, much less of the value is kept in time. `benchmarks/bench_overload.py` shows it at 1.6
times the capacity.
"""

VALUE_WEIGHT: Final[Mapping[Tier, float]] = {
    Tier.CRITICAL: 16.0,
    Tier.HIGH: 8.0,
    Tier.NORMAL: 4.0,
    Tier.LOW: 2.0,
    Tier.BACKGROUND: 1.0,
}
"""The value of finishing a run of each tier when nobody states it; without a unit, only ratios count."""

HALF_BONUS_WEIGHT: Final = 8.0
"""Where the unblock bonus reaches half of its bound: one waiting run of tier high, or two normal ones."""

MAX_COST_RATIO: Final = 0.5
"""The largest cost term, as a part of the time from first ready to latest start."""

MIN_NODE_RATIO: Final = 0.05
"""The part of a node that any run takes at least, whatever pools it needs: a thread of twenty."""

MIN_TIME_ALLOWED: Final = timedelta(seconds=60)
"""A linear penalty is counted against at least this much, so that a deadline of a second does not explode it."""

_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """The facts of a run from which its key is computed, under any policy.

    `first_ready` is when it first could start, and is kept over retries, so that an attempt more costs no age. `p90` is
    what it will take in nine cases of ten. `late` is a soft run past its `drop_at`: its deadline does not count any
    more, only its patience. `cost` is what it needs as the largest part of any pool's capacity, 0 to 1. `unblocks`
    counts the runs that wait for this one, by tier; the deadline may be one that it inherits from these.
    """

    first_ready: datetime
    deadline: datetime | None = None
    p90: timedelta = timedelta(seconds=1)
    late: bool = False
    cost: float = 0.0
    unblocks: Mapping[Tier, int] = field(default_factory=dict)


def order_key(
    facts: KeyFacts,
    tier: Tier,
    *,
    value: float | None = None,
    patience: Mapping[Tier, timedelta] = PATIENCE,
    values: Mapping[Tier, float] = VALUE_WEIGHT,
) -> float:
    """Place a run in the order: milliseconds since 1970, smaller first.

    Cost and `p90` make the effort that `value` is weighed against: what finishing the run is worth, by default that of
    its tier. `patience` and `values` of the tiers are those of the policy.

    The bonus is smaller than the time from first ready to latest start. So no run goes before one that had to start
    before this one was there. The cost term is at most half of that time.
    """
    ready = _milliseconds(facts.first_ready)
    latest = ready + patience[tier] / _MILLISECOND
    if facts.deadline is not None and not facts.late:
        latest = min(latest, _milliseconds(facts.deadline) - facts.p90 / _MILLISECOND)
    span = max(latest - ready, 0.0)
    effort = min(max(facts.cost, MIN_NODE_RATIO), 1.0) * max(facts.p90.total_seconds(), 0.0)
    term = cost_term(effort, _worth(values[tier] if value is None else value, values))
    # In this form rounding cannot put a later deadline before an earlier one.
    return min(latest, ready) + span * (1.0 - unblock_bonus(facts.unblocks, values) + term)


def goes_by_deadline(facts: KeyFacts, tier: Tier, patience: Mapping[Tier, timedelta] = PATIENCE) -> bool:
    """Say whether the deadline of a run orders it, and not how long it has waited: no other tenant goes before it."""
    if facts.deadline is None or facts.late:
        return False
    return facts.deadline - facts.p90 < facts.first_ready + patience[tier]


def unblock_bonus(unblocks: Mapping[Tier, int], values: Mapping[Tier, float] = VALUE_WEIGHT) -> float:
    """Say how much earlier a run goes for what waits for it: 0 for nothing, growing with number and tiers, below 1."""
    weight = sum(_worth(values[tier], values) * max(count, 0) for tier, count in unblocks.items())
    return weight / (weight + HALF_BONUS_WEIGHT)


def _worth(value: float, values: Mapping[Tier, float]) -> float:
    """Return a value on the scale of `VALUE_WEIGHT`: of the values of a policy only the ratios count."""
    return VALUE_WEIGHT[Tier.CRITICAL] / values[Tier.CRITICAL] * value


def cost_term(effort: float, value: float) -> float:
    """Say how much later a run goes for what it takes from others: 0 to `MAX_COST_RATIO`, less the more it is worth.

    `effort` is in seconds of a whole pool. Without this term all share an overload alike and start so late that half of
    them miss. Least laxity first knows no value (Baruah & Rosier 1991, on overloaded real-time systems).
    """
    return MAX_COST_RATIO * effort / (effort + max(value, 0.0) / VALUE_WEIGHT[Tier.CRITICAL]) if effort > 0 else 0.0


def drop_at(deadline: datetime, p50: timedelta) -> datetime:
    """Give the moment after which a run will more likely miss its deadline than meet it.

    A hard run expires then and a soft one is re-keyed as `late`. Without this, runs that are already lost hold the head
    of the queue. Under overload nearly every deadline is missed then (Locke 1986, "best-effort decision making").
    """
    return deadline - p50


def penalty(kind: Penalty, late: timedelta, allowed: timedelta) -> float:
    """Count what being late cost: `late` is finish less deadline, `allowed` deadline less first ready.

    Nothing for a run in time or of kind none; 1 for a step; for linear 1 per time allowed, of at least a minute.
    """
    if kind is Penalty.NONE or late <= timedelta(0):
        return 0.0
    return 1.0 if kind is Penalty.STEP else late / max(allowed, MIN_TIME_ALLOWED)


def _milliseconds(moment: datetime) -> float:
    return moment.timestamp() * 1000

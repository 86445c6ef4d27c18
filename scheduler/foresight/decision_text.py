"""A recorded decision in words: what was chosen, why this tier and this run, what else waited, what the pools had."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from duetime.scheduler.rules.headroom import may_start
from duetime.scheduler.rules.limits.pool import in_full
from duetime.scheduler.rules.policies.decision import Contender, Look, PoolSeen
from duetime.scheduler.rules.policies.decision_record import TIERS, Decision
from duetime.scheduler.rules.time.times import length

_WHY_LACKED: Final = {
    "unknown": "no such pool is declared",
    "too_small": "more than the pool ever has",
    "held": "its free units are kept for another run",
    "stopped": "its provider requested a pause",
    "breaker": "its breaker is open",
}


def outcome(decision: Decision) -> str:
    """Return what became of the run at this look: it started, or which pool it lacked."""
    lacked = decision.look.lacked
    return "started" if lacked is None else f"lacked {lacked.pool}"


def reason(look: Look) -> str:
    """Return in a few words why the tier went first."""
    rank = look.tier - 1
    heads = [head if head is not None and may_start(look.headroom, tier, look.idle) else None
             for tier, head in enumerate(look.heads, 1)]  # fmt: skip
    own = heads[rank]
    others = [head for tier, head in enumerate(heads) if head is not None and tier != rank]
    if own is not None and own.key < look.at and look.owed[rank] >= 1:
        return f"late, and owed {look.owed[rank]:.2f} dispatches"
    if not others:
        return "only tier with a run that could start"
    if own is not None and all((own.key, rank) <= (head.key, rank) for head in others):
        return "smallest key of all tiers"
    return "late, with room below its ceiling"


def lines(decision: Decision) -> Iterator[str]:
    """Yield the decision as sentences."""
    look, lacked = decision.look, decision.look.lacked
    if lacked is None:
        yield f"Run {decision.run_id} of tier {decision.tier} was taken by worker {decision.worker}."
    else:
        yield f"Run {decision.run_id} of tier {decision.tier} was stepped over: {_lack(lacked)}."
    yield f"Why its tier: {reason(look)}."
    yield from _out_of_key_order(look)
    yield f"Its key: {_lateness(look.run, look)}."
    for tier, other in zip(TIERS, look.heads, strict=True):
        if other is not None and tier is not decision.tier:
            yield f"{tier}: {_other(tier.rank, other, look)}"
    for pool in look.pools:
        if not pool.lacked and pool.free is not None:
            yield f"Pool {pool.pool}: {in_full(pool.units)} needed, {in_full(pool.free)} free."
    kept = [str(tier) for tier in TIERS if not may_start(look.headroom, tier.rank, look.idle)]
    if kept:
        yield f"{look.idle} idle threads were left, kept from: {', '.join(kept)}."
    yield f"Version {look.policy} of the policy was in force."


def _out_of_key_order(look: Look) -> Iterator[str]:
    """Yield why the run went that does not have the smallest key of its tier, or whose turn it was not."""
    if look.out_of_turn:
        yield "It went out of turn, to keep its deadline."
    head = look.heads[look.tier - 1]
    if head is None or head.run_id == look.run.run_id:
        return
    first = f"{head.run_id} had the smallest key, {_lateness(head, look)}"
    if look.out_of_turn:
        yield f"In the tier {first}. Its tenant had started a run out of turn before, so this one waits for its turn."
    else:
        yield f"In the tier it was the turn of its tenant; {first}."


def _other(rank: int, head: Contender, look: Look) -> str:
    owed, room = look.owed[rank - 1], look.room[rank - 1]
    return f"{head.run_id} waited, {_lateness(head, look)}; owed {owed:.2f} dispatches, {room:.2f} below its ceiling."


def _lack(pool: PoolSeen) -> str:
    if pool.free is None or pool.lacked not in {"short", "too_small"}:
        return f"pool {pool.pool}: {_WHY_LACKED.get(pool.lacked, pool.lacked)}"
    because = f" ({_WHY_LACKED[pool.lacked]})" if pool.lacked in _WHY_LACKED else ""
    had = f"{in_full(pool.units)} needed, {in_full(pool.free)} free"
    return f"pool {pool.pool} lacked {in_full(pool.units - pool.free)}: {had}{because}"


def _lateness(run: Contender, look: Look) -> str:
    seconds = round((look.at - run.key) / 1000)
    if not seconds:
        return "due now"
    span = length(timedelta(seconds=abs(seconds)))
    return f"late by {span}" if seconds > 0 else f"{span} before it is late"

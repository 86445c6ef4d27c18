"""A decision as it is kept: the look, what the keys of its runs were computed from, and both as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from duetime.scheduler.rules.order import KeyFacts
from duetime.scheduler.rules.policies.decision import Contender, Look, PoolSeen
from duetime.scheduler.task import Json, Tier

TIERS: Final = tuple(Tier)
"""Tiers by rank less 1, critical first."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A look of a worker's take at a run, as it is kept; `facts` by run, of those that could still be read."""

    id: str
    at: datetime
    tenant: str
    task_id: str
    run_id: str
    worker: str
    look: Look
    facts: Mapping[str, KeyFacts] = field(default_factory=dict)

    @property
    def tier(self) -> Tier:
        return TIERS[self.look.tier - 1]

    def shown_to(self, tenant: str) -> Decision:
        """Return what a caller of this tenant may see: no run of another one."""
        heads = tuple(head if head is not None and head.tenant == tenant else None for head in self.look.heads)
        kept = {self.run_id, *(head.run_id for head in heads if head is not None)}
        facts = {run_id: each for run_id, each in self.facts.items() if run_id in kept}
        return replace(self, look=replace(self.look, heads=heads), facts=facts)


@dataclass(frozen=True, slots=True)
class DecisionPage:
    """Decisions, the newest first; `cursor` is for the next page."""

    decisions: tuple[Decision, ...]
    cursor: str | None = None


def detail_of(decision: Decision) -> dict[str, Json]:
    """Return the look and the facts as JSON; `look_in` and `facts_in` read them back."""
    look = decision.look
    return {
        "at": look.at,
        "policy": look.policy,
        "idle": look.idle,
        "headroom": list(look.headroom),
        "owed": list(look.owed),
        "room": list(look.room),
        "tier": look.tier,
        "run": _contender_json(look.run),
        "heads": [_contender_json(head) if head is not None else None for head in look.heads],
        "out_of_turn": look.out_of_turn,
        "pools": [[pool.pool, pool.units, pool.free, str(pool.lacked)] for pool in look.pools],
        "facts": {run_id: _facts_json(each) for run_id, each in decision.facts.items()},
    }


def look_in(detail: Mapping[str, Any]) -> Look:
    return Look(
        at=float(detail["at"]),
        policy=int(detail["policy"]),
        idle=int(detail["idle"]),
        owed=tuple(map(float, detail["owed"])),
        room=tuple(map(float, detail["room"])),
        heads=tuple(_contender(head) if head is not None else None for head in detail["heads"]),
        tier=int(detail["tier"]),
        run=_contender(detail["run"]),
        pools=tuple(PoolSeen(*pool) for pool in detail["pools"]),
        headroom=tuple(map(int, detail["headroom"])),
        out_of_turn=bool(detail.get("out_of_turn", False)),  # an older version kept none
    )


def facts_in(detail: Mapping[str, Any]) -> dict[str, KeyFacts]:
    return {run_id: _facts(each) for run_id, each in detail["facts"].items()}


def _contender_json(run: Contender) -> list[Json]:
    return [run.run_id, run.key, run.tenant, run.by_deadline]


def _contender(words: list[Any]) -> Contender:
    run_id, key, tenant, by_deadline = words
    return Contender(str(run_id), float(key), str(tenant), bool(by_deadline))


def _facts_json(facts: KeyFacts) -> list[Json]:
    deadline = facts.deadline.isoformat() if facts.deadline is not None else None
    unblocks = {tier.value: count for tier, count in facts.unblocks.items()}
    return [facts.first_ready.isoformat(), deadline, facts.p90.total_seconds(), facts.late, facts.cost, unblocks]


def _facts(words: list[Any]) -> KeyFacts:
    first_ready, deadline, p90, late, cost, *more = words
    unblocks = more[0] if more else {}  # an older version kept none
    return KeyFacts(
        datetime.fromisoformat(first_ready),
        datetime.fromisoformat(deadline) if deadline is not None else None,
        timedelta(seconds=p90),
        bool(late),
        float(cost),
        {Tier(tier): int(count) for tier, count in unblocks.items()},
    )

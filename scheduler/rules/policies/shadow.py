"""A shadow policy: its choices in recorded decisions, compared with those that were made. Nothing is run by it.

The comparison goes one step. Each decision is replayed with the keys and shares of the shadow. The balance of the
shares and the waiting runs are as the policy in force had left them. Headroom and turns are those of the record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from duetime.scheduler.rules.policies.decision import replay_decision
from duetime.scheduler.rules.policies.decision_record import TIERS, Decision
from duetime.scheduler.rules.policies.policy import OrderPolicy
from duetime.scheduler.task import Json, Tier


@dataclass(frozen=True, slots=True)
class ShadowPolicy:
    """A policy that is compared and not in force: its whole content, and who set it, when, by which way and why."""

    content: Mapping[str, Json]
    at: datetime
    actor: str
    via: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TierDifference:
    """The difference for a tier: runs started, and first under the shadow; runs whose key would be earlier or later.

    `mean_shift` is that of the keys of all `runs` that were seen, above 0 for later.
    """

    tier: Tier
    starts: int
    shadow_starts: int
    runs: int = 0
    earlier: int = 0
    later: int = 0
    mean_shift: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class ShadowDifference:
    """The choices of a shadow in `decisions` that started a run: another tier, or another run of the tier."""

    decisions: int
    since: datetime | None
    other_tier: int
    other_run: int
    tiers: tuple[TierDifference, ...]


@dataclass(slots=True)
class _Counts:
    starts: Counter[Tier] = field(default_factory=Counter)
    shadow_starts: Counter[Tier] = field(default_factory=Counter)
    shifts: dict[Tier, dict[str, float]] = field(default_factory=lambda: {tier: {} for tier in TIERS})
    other_tier: int = 0
    other_run: int = 0


def compare_policies(decisions: Iterable[Decision], in_force: OrderPolicy, shadow: OrderPolicy) -> ShadowDifference:
    """Compare a shadow with decisions that were made under the policy in force; only those that started a run count."""
    counts, oldest = _Counts(), list[datetime]()
    for decision in decisions:
        if decision.look.lacked is None:
            oldest.append(decision.at)
            _count(counts, decision, in_force, shadow)
    tiers = tuple(_difference(counts, tier) for tier in TIERS)
    return ShadowDifference(len(oldest), min(oldest, default=None), counts.other_tier, counts.other_run, tiers)


def _count(counts: _Counts, decision: Decision, in_force: OrderPolicy, shadow: OrderPolicy) -> None:
    look, keys = decision.look, dict[str, float]()
    for tier, head in zip(TIERS, look.heads, strict=True):
        facts = decision.facts.get(head.run_id) if head is not None else None
        if head is not None and facts is not None:
            shift = shadow.key(facts, tier) - in_force.key(facts, tier)
            keys[head.run_id] = head.key + shift
            counts.shifts[tier][head.run_id] = shift
    counts.starts[decision.tier] += 1
    choice = replay_decision(look, shadow.shares, keys=keys)
    if choice is None:  # a record that does not belong to its policy: nothing to compare
        return
    rank, run = choice
    counts.shadow_starts[TIERS[rank - 1]] += 1
    counts.other_tier += rank != look.tier
    counts.other_run += rank == look.tier and run.run_id != look.run.run_id


def _difference(counts: _Counts, tier: Tier) -> TierDifference:
    shifts = [*counts.shifts[tier].values()]
    mean = timedelta(milliseconds=sum(shifts) / len(shifts)) if shifts else timedelta(0)
    earlier, later = sum(shift < 0 for shift in shifts), sum(shift > 0 for shift in shifts)
    return TierDifference(tier, counts.starts[tier], counts.shadow_starts[tier], len(shifts), earlier, later, mean)

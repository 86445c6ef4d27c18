"""A shadow policy next to recorded decisions: what it would have chosen, and by how much keys move."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from duetime.scheduler.rules.order import KeyFacts
from duetime.scheduler.rules.policies.decision import Contender, Look, PoolSeen
from duetime.scheduler.rules.policies.decision_record import TIERS, Decision
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY, OrderPolicy, read_policy
from duetime.scheduler.rules.policies.shadow import ShadowDifference, compare_policies
from duetime.scheduler.task import Tier

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
NO_LOOK_AHEAD = (0.0,) * 5


def decision(
    waits_s: dict[Tier, float], chosen: Tier, *, owed: tuple[float, ...] = NO_LOOK_AHEAD, lacked: str = ""
) -> Decision:
    """Return a decision among runs that have waited so long, one of each tier."""
    facts = {
        tier: KeyFacts(NOW - timedelta(seconds=waited), None, timedelta(seconds=1), False, 0.0)
        for tier, waited in waits_s.items()
    }
    heads = tuple(
        Contender(f"r_{tier}", DEFAULT_POLICY.key(facts[tier], tier), "acme") if tier in facts else None
        for tier in TIERS
    )
    run = heads[chosen.rank - 1]
    assert run is not None
    pools = (PoolSeen("gpu", 1, 0, lacked),) if lacked else ()
    look = Look(NOW.timestamp() * 1000, 0, 4, owed, (2.0,) * 5, heads, chosen.rank, run, pools)
    return Decision(
        "d_1", NOW, "acme", "t_1", run.run_id, "w1", look, {f"r_{tier}": each for tier, each in facts.items()}
    )


def against(policy: OrderPolicy, *decisions: Decision) -> ShadowDifference:
    return compare_policies(decisions, DEFAULT_POLICY, policy)


def test_the_policy_in_force_as_its_own_shadow_chooses_the_same() -> None:
    some = [
        decision({Tier.HIGH: 10, Tier.LOW: 60}, Tier.HIGH),
        decision({Tier.NORMAL: 600, Tier.LOW: 4000}, Tier.NORMAL, owed=(0.0, 0.0, 1.9, 1.0, 0.0)),
    ]
    found = against(DEFAULT_POLICY, *some)
    assert (found.decisions, found.other_tier, found.other_run) == (2, 0, 0)
    assert all(tier.starts == tier.shadow_starts for tier in found.tiers)
    assert all((tier.earlier, tier.later, tier.mean_shift) == (0, 0, timedelta(0)) for tier in found.tiers)


def test_a_shorter_patience_moves_keys_and_lets_another_tier_go_first() -> None:
    quicker = read_policy({"patience": {"low": 30}})
    found = against(quicker, decision({Tier.NORMAL: 10, Tier.LOW: 20}, Tier.NORMAL))
    normal, low = found.tiers[2], found.tiers[3]
    assert (found.other_tier, normal.starts, normal.shadow_starts, low.shadow_starts) == (1, 1, 0, 1)
    assert (low.runs, low.earlier, low.later) == (1, 1, 0)
    assert timedelta(minutes=-35) < low.mean_shift < timedelta(minutes=-28)
    assert normal.mean_shift == timedelta(0)


def test_other_shares_let_another_late_tier_go_first() -> None:
    late = decision({Tier.NORMAL: 600, Tier.LOW: 4000}, Tier.NORMAL, owed=(0.0, 0.0, 1.5, 1.5, 0.0))
    found = against(read_policy({"shares": {"low": 0.3, "critical": 0.1}}), late)
    assert (found.other_tier, found.tiers[3].shadow_starts) == (1, 1)
    assert found.tiers[3].mean_shift == timedelta(0)


def test_another_run_of_the_tier_counts_apart_and_parked_runs_do_not_count() -> None:
    turn = decision({Tier.LOW: 10}, Tier.LOW)
    head = turn.look.heads[3]
    assert head is not None
    untaken = replace(head, by_deadline=True)
    other = replace(turn.look, heads=(None, None, None, untaken, None), run=Contender("r_other", head.key, "globex"))
    found = against(DEFAULT_POLICY, replace(turn, look=other), decision({Tier.LOW: 10}, Tier.LOW, lacked="short"))
    assert (found.decisions, found.other_tier, found.other_run) == (1, 0, 1)

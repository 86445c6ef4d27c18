"""Replay: what the record of a look has, and the policy, decide alone."""

from __future__ import annotations

from dataclasses import replace

from duetime.scheduler.rules.policies.decision import Contender, Look, replay_decision
from duetime.scheduler.rules.shares import Shares

NOW_MS = 1_800_000_000_000.0
USUAL = Shares()


def contender(run_id: str, late_s: float, tenant: str = "", *, by_deadline: bool = False) -> Contender:
    return Contender(run_id, NOW_MS - late_s * 1000, tenant, by_deadline)


def look(*heads: Contender | None, owed: tuple[float, ...] = (0.0,) * 5, idle: int = 4) -> Look:
    """Return the record of a look that chose the first head."""
    first = next(tier for tier, head in enumerate(heads) if head is not None)
    run = heads[first]
    assert run is not None
    return Look(NOW_MS, 0, idle, owed, (2.0,) * 5, heads, first + 1, run)


def test_the_smallest_key_goes_first_and_new_keys_change_it() -> None:
    high, low = contender("high", -60), contender("low", -30)
    seen = look(None, high, None, low, None)
    assert replay_decision(seen, USUAL) == (4, low)
    assert replay_decision(seen, USUAL, keys={"low": NOW_MS + 90_000}) == (2, high)


def test_other_shares_choose_another_tier_of_those_that_are_owed() -> None:
    heads = (None, contender("high", 60), None, contender("low", 30), None)
    seen = look(*heads, owed=(0.0, 1.2, 0.0, 1.2, 0.0))
    assert replay_decision(seen, USUAL) == (2, heads[1])
    for_low = Shares((0.1, 0.1, 0.1, 0.5, 0.1), (0.8, 0.7, 0.6, 0.9, 0.4))
    assert replay_decision(seen, for_low) == (4, heads[3])


def test_headroom_keeps_a_tier_from_starting_and_may_be_replaced() -> None:
    low = contender("low", 30)
    seen = replace(look(None, None, None, low, None, idle=1), headroom=(0, 1, 1, 1, 1))
    assert replay_decision(seen, USUAL) is None
    assert replay_decision(seen, USUAL, headroom=(0,) * 5) == (4, low)


def test_the_recorded_turn_counts_unless_a_deadline_can_still_be_kept() -> None:
    head, other = contender("a", -30, "acme"), contender("b", -20, "globex")
    seen = replace(look(None, None, head, None, None), run=other)
    assert replay_decision(seen, USUAL) == (3, other)
    urgent = replace(head, by_deadline=True)
    assert replay_decision(replace(seen, heads=(None, None, urgent, None, None)), USUAL) == (3, urgent)
    late = replace(urgent, key=NOW_MS - 1)
    assert replay_decision(replace(seen, heads=(None, None, late, None, None)), USUAL) == (3, other)

"""Shares: every late tier gets what it is promised, whatever arrives, and none takes more than its ceiling."""

from __future__ import annotations

from itertools import product

import pytest
from duetime.scheduler.rules.shares import TIER_COUNT, ShareBalance, Shares, choose, count_dispatch, overdue
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

Heads = tuple[float | None, ...]

NOW_MS = 0.0
LATE_KEY, EARLY_KEY = -1.0, 1.0

ARRIVALS = st.lists(
    st.tuples(*[st.none() | st.floats(-1e12, 1e12) for _ in range(TIER_COUNT)]), min_size=50, max_size=120
).map(tuple)


@st.composite
def any_shares(draw: st.DrawFn) -> Shares:
    """Shares that are legal: above 0, at most 1 in all, each below its ceiling."""
    parts = draw(st.lists(st.integers(1, 100), min_size=TIER_COUNT, max_size=TIER_COUNT))
    whole = draw(st.integers(sum(parts), 4 * sum(parts)))
    guaranteed = tuple(part / whole for part in parts)
    ceilings = tuple(min(1.0, share + draw(st.floats(0.01, 1.0))) for share in guaranteed)
    return Shares(guaranteed, ceilings)


def dispatched(shares: Shares, balance: ShareBalance, heads: Heads) -> int | None:
    """Choose a tier and serve it."""
    tier = choose(shares, balance, heads, NOW_MS)
    if tier is not None:
        count_dispatch(shares, balance, overdue(heads, NOW_MS), tier)
    return tier


def longest_waits(shares: Shares, arrivals: tuple[Heads, ...]) -> list[int]:
    """Return, by tier, the most dispatches in a row during which its best run was overdue and it got none."""
    balance, waits, longest = ShareBalance(), [0] * TIER_COUNT, [0] * TIER_COUNT
    for heads in arrivals:
        tier = dispatched(shares, balance, heads)
        if tier is None:
            continue
        late = overdue(heads, NOW_MS)
        waits = [waits[each] + 1 if each in late and each != tier else 0 for each in range(TIER_COUNT)]
        longest = [max(pair) for pair in zip(longest, waits, strict=True)]
    return longest


@examples(40)
@given(any_shares(), ARRIVALS)
def test_no_late_tier_waits_longer_than_its_bound_whatever_arrives(shares: Shares, arrivals: tuple[Heads, ...]) -> None:
    assert all(wait < shares.bound(tier + 1) for tier, wait in enumerate(longest_waits(shares, arrivals)))


def spiteful(shares: Shares, victim: int, balance: ShareBalance) -> int:
    """Show, dispatch by dispatch, what keeps `victim` waiting and the others owed the most; return how long that works.

    The best run of the victim is always overdue, those of the others only as it pleases this adversary. They are more
    overdue, or not there, or not yet late.
    """
    waited = 0
    while waited <= 2 * shares.bound(victim + 1):
        worst: list[tuple[float, ShareBalance]] = []
        for shown in product([None if waited % 2 else EARLY_KEY, 2 * LATE_KEY], repeat=TIER_COUNT):
            heads = tuple(LATE_KEY if tier == victim else head for tier, head in enumerate(shown))
            after = ShareBalance(list(balance.owed), list(balance.room))
            if dispatched(shares, after, heads) != victim:
                worst.append((sum(after.owed) - after.owed[victim], after))
        if not worst:
            break
        balance, waited = max(worst, key=lambda each: each[0])[1], waited + 1
    return waited


@examples(20)
@given(
    any_shares(), st.integers(0, TIER_COUNT - 1), st.lists(st.floats(-2, 2), min_size=TIER_COUNT, max_size=TIER_COUNT)
)
def test_not_even_an_adversary_keeps_a_late_tier_from_its_bound(shares: Shares, victim: int, room: list[float]) -> None:
    owed = [0.0 if tier == victim else 2.0 for tier in range(TIER_COUNT)]
    assert spiteful(shares, victim, ShareBalance(owed, room)) < shares.bound(victim + 1)


def test_the_adversary_of_these_tests_is_worth_the_name() -> None:
    shares = Shares((0.26, 0.1, 0.04, 0.48, 0.12), (1.0,) * 5)
    assert spiteful(shares, 3, ShareBalance([2.0, 2.0, 2.0, 0.0, 2.0], [1.0] * TIER_COUNT)) > 2 / 0.48


@examples(40)
@given(ARRIVALS)
def test_no_late_tier_waits_longer_than_its_bound_with_the_usual_shares(arrivals: tuple[Heads, ...]) -> None:
    shares = Shares()
    assert all(wait < shares.bound(tier + 1) for tier, wait in enumerate(longest_waits(shares, arrivals)))


@pytest.mark.parametrize("greedy", range(TIER_COUNT))
def test_tiers_that_are_always_late_get_their_shares_and_the_greedy_one_its_ceiling(greedy: int) -> None:
    shares, balance = Shares(), ShareBalance()
    heads: Heads = tuple(-1e9 if tier == greedy else LATE_KEY - tier for tier in range(TIER_COUNT))
    got = [0] * TIER_COUNT
    for _ in range(10_000):
        tier = dispatched(shares, balance, heads)
        assert tier is not None
        got[tier] += 1
    assert all(got[tier] >= 10_000 * shares.guaranteed[tier] - 2 for tier in range(TIER_COUNT))
    assert got[greedy] <= 10_000 * shares.ceilings[greedy] + 3


@pytest.mark.parametrize("ceiling", [0.5, 0.7, 0.8])
def test_a_ceiling_is_reached_and_not_passed_while_one_other_is_late(ceiling: float) -> None:
    shares, balance = Shares(ceilings=(ceiling, 0.9, 0.9, 0.9, 0.9)), ShareBalance()
    got = sum(dispatched(shares, balance, (2 * LATE_KEY, LATE_KEY, None, None, None)) == 0 for _ in range(10_000))
    assert abs(got - 10_000 * ceiling) <= 3


def test_a_turn_that_nobody_is_owed_goes_by_key() -> None:
    shares, balance = Shares(), ShareBalance()
    assert choose(shares, balance, (5.0, 4.0, 3.0, 2.0, 1.0), NOW_MS) == 4
    assert choose(shares, balance, (1.0, 1.0, 1.0, 1.0, 1.0), NOW_MS) == 0
    assert choose(shares, balance, (None, None, 9.0, None, None), NOW_MS) == 2
    assert choose(shares, balance, (LATE_KEY, 5 * LATE_KEY, None, None, None), NOW_MS) == 1
    assert choose(shares, balance, (None,) * TIER_COUNT, NOW_MS) is None


def test_while_nobody_is_late_the_key_alone_decides_and_nothing_is_earned() -> None:
    shares, balance = Shares(), ShareBalance([2.0] * TIER_COUNT, [-2.0] * TIER_COUNT)
    early: Heads = (5.0, 4.0, 3.0, 2.0, EARLY_KEY)
    assert {dispatched(shares, balance, early) for _ in range(1000)} == {4}
    assert balance == ShareBalance([2.0] * TIER_COUNT, [-2.0] * TIER_COUNT)


def test_a_late_tier_is_not_kept_waiting_for_what_others_are_owed_that_are_not_late() -> None:
    shares, balance = Shares(), ShareBalance([2.0, 2.0, 2.0, 2.0, 0.0], [2.0, 2.0, 2.0, 2.0, -2.0])
    assert dispatched(shares, balance, (EARLY_KEY, EARLY_KEY, EARLY_KEY, EARLY_KEY, LATE_KEY)) == 4


def test_a_tier_at_its_ceiling_gives_way_to_late_ones_alone() -> None:
    shares, balance = Shares(), ShareBalance(room=[-2.0, 2.0, 2.0, 2.0, 2.0])
    assert choose(shares, balance, (3 * LATE_KEY, EARLY_KEY, 2 * LATE_KEY, None, LATE_KEY), NOW_MS) == 2
    assert choose(shares, balance, (3 * LATE_KEY, EARLY_KEY, EARLY_KEY, None, None), NOW_MS) == 0


def test_a_tier_alone_is_never_held_back() -> None:
    shares, balance = Shares(), ShareBalance()
    assert {dispatched(shares, balance, (None, None, None, None, 7 * LATE_KEY)) for _ in range(1000)} == {4}


def test_an_idle_tier_saves_up_two_dispatches_and_no_more() -> None:
    shares, balance = Shares(), ShareBalance()
    everyone: Heads = (3 * LATE_KEY, 2 * LATE_KEY, None, None, LATE_KEY)
    for _ in range(1000):
        dispatched(shares, balance, everyone)
    assert all(0 <= owed <= 2 for owed in balance.owed)
    assert all(-2 <= room <= 2 for room in balance.room)


@pytest.mark.parametrize(
    ("guaranteed", "ceilings"),
    [
        ((0.5, 0.5, 0.1, 0.1, 0.1), (0.9,) * 5),
        ((0.2,) * 4, (0.9,) * 4),
        ((0.2,) * 5, (0.2,) * 5),
        ((0.0, 0.2, 0.2, 0.2, 0.2), (0.9,) * 5),
        ((0.1,) * 5, (1.1,) * 5),
    ],
)
def test_shares_that_cannot_be_kept_are_refused(guaranteed: tuple[float, ...], ceilings: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="five shares"):
        Shares(guaranteed, ceilings)

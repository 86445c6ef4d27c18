"""Shares: every late tier gets what it is promised, whatever arrives, and none takes more than its ceiling."""

from __future__ import annotations

from itertools import product

import pytest
from duetime.scheduler.rules.shares import TIERS, Shares, Standing, choose, overdue, served
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

Heads = tuple[float | None, ...]

NOW = 0.0
LATE, EARLY = -1.0, 1.0

ARRIVALS = st.lists(
    st.tuples(*[st.none() | st.floats(-1e12, 1e12) for _ in range(TIERS)]), min_size=50, max_size=120
).map(tuple)


@st.composite
def any_shares(draw: st.DrawFn) -> Shares:
    """Shares that are legal: above 0, at most 1 in all, each below its ceiling."""
    parts = draw(st.lists(st.integers(1, 100), min_size=TIERS, max_size=TIERS))
    whole = draw(st.integers(sum(parts), 4 * sum(parts)))
    guaranteed = tuple(part / whole for part in parts)
    ceilings = tuple(min(1.0, share + draw(st.floats(0.01, 1.0))) for share in guaranteed)
    return Shares(guaranteed, ceilings)


def dispatched(shares: Shares, standing: Standing, heads: Heads) -> int | None:
    """Choose a tier and serve it."""
    tier = choose(shares, standing, heads, NOW)
    if tier is not None:
        served(shares, standing, overdue(heads, NOW), tier)
    return tier


def longest_waits(shares: Shares, arrivals: tuple[Heads, ...]) -> list[int]:
    """Return, by tier, the most dispatches in a row during which its best run was overdue and it got none."""
    standing, waits, longest = Standing(), [0] * TIERS, [0] * TIERS
    for heads in arrivals:
        tier = dispatched(shares, standing, heads)
        if tier is None:
            continue
        late = overdue(heads, NOW)
        waits = [waits[each] + 1 if each in late and each != tier else 0 for each in range(TIERS)]
        longest = [max(pair) for pair in zip(longest, waits, strict=True)]
    return longest


@examples(40)
@given(any_shares(), ARRIVALS)
def test_no_late_tier_waits_longer_than_its_bound_whatever_arrives(shares: Shares, arrivals: tuple[Heads, ...]) -> None:
    assert all(wait < shares.bound(tier + 1) for tier, wait in enumerate(longest_waits(shares, arrivals)))


def spiteful(shares: Shares, victim: int, standing: Standing) -> int:
    """Show, dispatch by dispatch, what keeps `victim` waiting and the others owed the most; return how long that works.

    The best run of the victim is always overdue, those of the others only as it pleases this adversary: they are more
    overdue, or not there, or not yet late.
    """
    waited = 0
    while waited <= 2 * shares.bound(victim + 1):
        worst: list[tuple[float, Standing]] = []
        for shown in product([None if waited % 2 else EARLY, 2 * LATE], repeat=TIERS):
            heads = tuple(LATE if tier == victim else head for tier, head in enumerate(shown))
            after = Standing(list(standing.owed), list(standing.room))
            if dispatched(shares, after, heads) != victim:
                worst.append((sum(after.owed) - after.owed[victim], after))
        if not worst:
            break
        standing, waited = max(worst, key=lambda each: each[0])[1], waited + 1
    return waited


@examples(20)
@given(any_shares(), st.integers(0, TIERS - 1), st.lists(st.floats(-2, 2), min_size=TIERS, max_size=TIERS))
def test_not_even_an_adversary_keeps_a_late_tier_from_its_bound(shares: Shares, victim: int, room: list[float]) -> None:
    owed = [0.0 if tier == victim else 2.0 for tier in range(TIERS)]
    assert spiteful(shares, victim, Standing(owed, room)) < shares.bound(victim + 1)


def test_the_adversary_of_these_tests_is_worth_the_name() -> None:
    shares = Shares((0.26, 0.1, 0.04, 0.48, 0.12), (1.0,) * 5)
    assert spiteful(shares, 3, Standing([2.0, 2.0, 2.0, 0.0, 2.0], [1.0] * TIERS)) > 2 / 0.48


@examples(40)
@given(ARRIVALS)
def test_no_late_tier_waits_longer_than_its_bound_with_the_usual_shares(arrivals: tuple[Heads, ...]) -> None:
    shares = Shares()
    assert all(wait < shares.bound(tier + 1) for tier, wait in enumerate(longest_waits(shares, arrivals)))


@pytest.mark.parametrize("greedy", range(TIERS))
def test_tiers_that_are_always_late_get_their_shares_and_the_greedy_one_its_ceiling(greedy: int) -> None:
    shares, standing = Shares(), Standing()
    heads: Heads = tuple(-1e9 if tier == greedy else LATE - tier for tier in range(TIERS))
    got = [0] * TIERS
    for _ in range(10_000):
        tier = dispatched(shares, standing, heads)
        assert tier is not None
        got[tier] += 1
    assert all(got[tier] >= 10_000 * shares.guaranteed[tier] - 2 for tier in range(TIERS))
    assert got[greedy] <= 10_000 * shares.ceilings[greedy] + 3


@pytest.mark.parametrize("ceiling", [0.5, 0.7, 0.8])
def test_a_ceiling_is_reached_and_not_passed_while_one_other_is_late(ceiling: float) -> None:
    shares, standing = Shares(ceilings=(ceiling, 0.9, 0.9, 0.9, 0.9)), Standing()
    got = sum(dispatched(shares, standing, (2 * LATE, LATE, None, None, None)) == 0 for _ in range(10_000))
    assert abs(got - 10_000 * ceiling) <= 3


def test_what_nobody_is_owed_goes_by_key() -> None:
    shares, standing = Shares(), Standing()
    assert choose(shares, standing, (5.0, 4.0, 3.0, 2.0, 1.0), NOW) == 4
    assert choose(shares, standing, (1.0, 1.0, 1.0, 1.0, 1.0), NOW) == 0
    assert choose(shares, standing, (None, None, 9.0, None, None), NOW) == 2
    assert choose(shares, standing, (LATE, 5 * LATE, None, None, None), NOW) == 1
    assert choose(shares, standing, (None,) * TIERS, NOW) is None


def test_while_nobody_is_late_the_key_alone_decides_and_nothing_is_earned() -> None:
    shares, standing = Shares(), Standing([2.0] * TIERS, [-2.0] * TIERS)
    early: Heads = (5.0, 4.0, 3.0, 2.0, EARLY)
    assert {dispatched(shares, standing, early) for _ in range(1000)} == {4}
    assert standing == Standing([2.0] * TIERS, [-2.0] * TIERS)


def test_a_late_tier_is_not_kept_waiting_for_what_others_are_owed_that_are_not_late() -> None:
    shares, standing = Shares(), Standing([2.0, 2.0, 2.0, 2.0, 0.0], [2.0, 2.0, 2.0, 2.0, -2.0])
    assert dispatched(shares, standing, (EARLY, EARLY, EARLY, EARLY, LATE)) == 4


def test_a_tier_at_its_ceiling_gives_way_to_late_ones_alone() -> None:
    shares, standing = Shares(), Standing(room=[-2.0, 2.0, 2.0, 2.0, 2.0])
    assert choose(shares, standing, (3 * LATE, EARLY, 2 * LATE, None, LATE), NOW) == 2
    assert choose(shares, standing, (3 * LATE, EARLY, EARLY, None, None), NOW) == 0


def test_a_tier_alone_is_never_held_back() -> None:
    shares, standing = Shares(), Standing()
    assert {dispatched(shares, standing, (None, None, None, None, 7 * LATE)) for _ in range(1000)} == {4}


def test_an_idle_tier_saves_up_two_dispatches_and_no_more() -> None:
    shares, standing = Shares(), Standing()
    everyone: Heads = (3 * LATE, 2 * LATE, None, None, LATE)
    for _ in range(1000):
        dispatched(shares, standing, everyone)
    assert all(0 <= owed <= 2 for owed in standing.owed)
    assert all(-2 <= room <= 2 for room in standing.room)


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

"""Turns: a tenant waits for one run of each other tenant of its tier, or two if one has a deadline to keep."""

from __future__ import annotations

import pytest
from duetime.scheduler.rules.turns import TENANT_FORGOTTEN_AFTER_MS, Turns, goes_out_of_turn
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

VICTIM = "victim"
NOW_MS = 1_800_000_000_000.0

ADVERSARY = st.lists(
    st.tuples(st.lists(st.integers(0, 9), max_size=6), st.sampled_from([0.0, 0.0, 1.0, 5000.0, -3000.0])), max_size=60
)


def served(turns: Turns, waiting: list[str], now: float) -> str:
    """Serve whose turn it is."""
    tenant = min(waiting, key=lambda each: (turns.of(3, each), each))
    turns.served(3, tenant, now)
    return tenant


@examples(50)
@given(ADVERSARY, ADVERSARY)
def test_a_tenant_waits_for_at_most_one_run_of_each_other_whoever_comes_and_goes(
    before: list[tuple[list[int], float]], after: list[tuple[list[int], float]]
) -> None:
    """The others have work when it pleases an adversary, who also sets the clock; the victim from a time on."""
    turns, now, passed = Turns(), NOW_MS, list[str]()
    for moment, (shown, leap) in enumerate([*before, *after]):
        now += leap
        waiting = [f"t{number}" for number in dict.fromkeys(shown)] + [VICTIM] * (moment >= len(before))
        for tenant in waiting:
            turns.entered(3, tenant, now)
        first = served(turns, waiting, now) if waiting else VICTIM
        passed = [] if first == VICTIM else [*passed, first] if moment >= len(before) else []
        assert len(passed) == len(set(passed)), f"{passed}: one of them goes twice while another waits"


@examples(50)
@given(ADVERSARY, ADVERSARY)
def test_a_tenant_waits_for_at_most_two_runs_of_each_other_whatever_deadlines_they_have(
    before: list[tuple[list[int], float]], after: list[tuple[list[int], float]]
) -> None:
    """Every run of the others has a deadline; those of even numbers can be kept while several tenants wait."""
    turns, now, passed = Turns(), NOW_MS, list[str]()
    for moment, (shown, leap) in enumerate([*before, *after]):
        now += leap
        waiting = [f"t{number}" for number in dict.fromkeys(shown)] + [VICTIM] * (moment >= len(before))
        for tenant in waiting:
            turns.entered(3, tenant, now)
        if not waiting:
            continue
        in_turn = min(waiting, key=lambda each: (turns.of(3, each), each))
        urgent = [each for each in waiting if each != VICTIM and not turns.is_barred(3, each, turns.of(3, in_turn))]
        first = urgent[0] if urgent and shown[0] % 2 == 0 else in_turn
        turns.served(3, first, now, out_of_turn=first != in_turn)
        passed = [] if first == VICTIM else [*passed, first] if moment >= len(before) else []
        assert max(map(passed.count, passed), default=0) <= 2, f"{passed}: one of them goes more than twice"


def test_a_tenant_goes_out_of_turn_again_when_each_that_waits_was_served_or_is_new() -> None:
    turns = Turns()
    for tenant in ("urgent", "waits", "waits too"):
        turns.entered(3, tenant, NOW_MS)
    turns.served(3, "urgent", NOW_MS, out_of_turn=True)
    barred = []
    for tenant in ("waits", "waits too"):
        barred.append(turns.is_barred(3, "urgent", min(turns.of(3, each) for each in ("waits", "waits too"))))
        turns.served(3, tenant, NOW_MS)
    turns.entered(3, "new", NOW_MS)
    barred.append(turns.is_barred(3, "urgent", min(turns.of(3, each) for each in ("waits", "waits too", "new"))))
    assert barred == [True, True, False]
    assert not turns.is_barred(3, "urgent", turns.of(3, "urgent")), "in its own turn a tenant always goes"


def test_two_backlogs_alternate_though_one_of_them_is_older() -> None:
    turns = Turns()
    for tenant in ("old", "new"):
        turns.entered(3, tenant, NOW_MS)
    assert [served(turns, ["old", "new"], NOW_MS) for _ in range(6)] == ["old", "new"] * 3


def test_a_tenant_that_comes_back_at_once_does_not_pass_one_that_waits() -> None:
    turns = Turns()
    turns.entered(3, "waits", NOW_MS)
    turns.entered(3, "quick", NOW_MS)
    assert served(turns, ["waits", "quick"], NOW_MS) == "waits"
    assert served(turns, ["waits", "quick"], NOW_MS) == "quick"
    turns.entered(3, "quick", NOW_MS)
    assert served(turns, ["waits", "quick"], NOW_MS) == "waits"


def test_new_tenants_without_end_keep_no_older_one_waiting() -> None:
    turns = Turns()
    turns.entered(3, "first", NOW_MS)
    for number in range(100):
        turns.entered(3, f"n{number}", NOW_MS)
    assert served(turns, ["first", *(f"n{number}" for number in range(100))], NOW_MS) == "first"


def test_a_tenant_not_served_for_an_hour_is_forgotten() -> None:
    turns = Turns()
    turns.entered(3, "gone", NOW_MS)
    turns.served(3, "gone", NOW_MS, out_of_turn=True)
    turns.served(3, "stays", NOW_MS + TENANT_FORGOTTEN_AFTER_MS)
    assert (set(turns.at[2]), set(turns.out_of_turn_at[2])) == ({"gone", "stays"}, {"gone"})
    turns.served(3, "stays", NOW_MS + TENANT_FORGOTTEN_AFTER_MS + 1)
    assert (set(turns.at[2]), set(turns.out_of_turn_at[2])) == ({"stays"}, set())


@pytest.mark.parametrize(("by_deadline", "key", "goes"), [(True, 0.0, True), (True, -1.0, False), (False, 9.0, False)])
def test_a_deadline_may_go_out_of_turn_while_it_can_be_kept(by_deadline: bool, key: float, goes: bool) -> None:
    assert goes_out_of_turn(by_deadline, NOW_MS + key, NOW_MS) is goes

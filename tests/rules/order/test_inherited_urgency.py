"""Inherited urgency, compared with a search of all ways through the graph."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from duetime.scheduler.chain.inheritance import Inherited, inherit
from duetime.scheduler.run_records import Waiter
from duetime.scheduler.task import Tier
from hypothesis import given
from hypothesis import strategies as st

from tests.search import examples

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@st.composite
def graphs(draw: st.DrawFn) -> list[Waiter]:
    """Return the edges of a graph without a cycle: each task comes after some of those with smaller numbers."""
    size = draw(st.integers(1, 7))
    tiers = [draw(st.sampled_from(Tier)) for _ in range(size)]
    deadlines = [draw(st.none() | st.integers(-60, 600).map(lambda n: NOW + n * MINUTE)) for _ in range(size)]
    takes = [draw(st.integers(0, 90)) * MINUTE for _ in range(size)]
    edges = draw(st.sets(st.tuples(st.integers(0, size - 1), st.integers(0, size - 1)).filter(lambda e: e[0] < e[1])))
    return [Waiter(f"{a}", f"{b}", tiers[b], "act", deadlines[b], takes[b]) for a, b in sorted(edges)]


def takes(waiter: Waiter) -> timedelta:
    return waiter.estimate or timedelta(0)


def searched(root: str, edges: list[Waiter]) -> tuple[dict[str, Waiter], list[tuple[datetime, datetime]]]:
    """Walk every way from the root: the tasks on them, and what each deadline leaves for the root."""
    seen: dict[str, Waiter] = {}
    limits: list[tuple[datetime, datetime]] = []
    ways = [(each, takes(each)) for each in edges if each.upstream_id == root]
    while ways:
        last, spent = ways.pop()
        seen[last.task_id] = last
        if last.deadline is not None:
            limits.append((last.deadline - spent, last.deadline))
        ways += [(each, spent + takes(each)) for each in edges if each.upstream_id == last.task_id]
    return seen, limits


@examples(150)
@given(graphs())
def test_it_counts_each_waiter_once_and_finishes_in_time_for_the_most_urgent_way(edges: list[Waiter]) -> None:
    seen, limits = searched("0", edges)
    found = inherit("0", edges, takes)
    assert found.unblocks == Counter(each.tier for each in seen.values())
    assert (found.finish_by, found.due) == (min(limits) if limits else (None, None))


@examples(100)
@given(graphs(), st.integers(-60, 600))
def test_one_more_waiter_never_makes_it_less_urgent(edges: list[Waiter], minutes: int) -> None:
    before = inherit("0", edges, takes)
    more = Waiter("0", "new", Tier.CRITICAL, "act", NOW + minutes * MINUTE, MINUTE)
    after = inherit("0", [*edges, more], takes)
    assert after.count == before.count + 1
    assert after.finish_by is not None
    assert before.finish_by is None or after.finish_by <= before.finish_by


def test_the_durations_between_are_taken_off_a_deadline() -> None:
    edges = [
        Waiter("a", "b", Tier.NORMAL, "act", None, 10 * MINUTE),
        Waiter("b", "c", Tier.CRITICAL, "act", NOW + 60 * MINUTE, 20 * MINUTE),
        Waiter("a", "c", Tier.CRITICAL, "act", NOW + 60 * MINUTE, 20 * MINUTE),
    ]
    due = NOW + 60 * MINUTE
    assert inherit("a", edges, takes) == Inherited({Tier.NORMAL: 1, Tier.CRITICAL: 1}, NOW + 30 * MINUTE, due)
    assert inherit("c", edges, takes) == Inherited()

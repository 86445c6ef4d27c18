"""Under overload the order keeps what is worth most, and drops what is lost; with room it meets what EDF meets.

The traces and the other orders are those of `benchmarks/bench_overload.py`, on a virtual clock, shorter.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from duetime.scheduler.task import Tier


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks/bench_overload.py"
    spec = importlib.util.spec_from_file_location("bench_overload", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there for the names in their annotations
    spec.loader.exec_module(module)
    return module


def kept(bench: ModuleType, trace: int, order: str) -> float:
    jobs = bench.TRACES[trace].jobs(1800, seed=1, tail=600)
    return float(bench.value(jobs, bench.in_time(jobs, bench.POLICIES[order]())))


def test_bursts_that_edf_meets_are_met_with_shares_and_patience_too(bench: ModuleType) -> None:
    assert kept(bench, 0, "EDF") > 0.999
    assert kept(bench, 0, "ours") > 0.98


def test_deadlines_that_edf_meets_are_met_though_background_runs_have_the_shorter_ones(bench: ModuleType) -> None:
    assert kept(bench, 2, "EDF") > 0.999
    assert kept(bench, 2, "ours") > 0.995


def test_a_lasting_overload_costs_less_than_under_the_plain_orders(bench: ModuleType) -> None:
    found = {order: kept(bench, 1, order) for order in ("FIFO", "EDF", "fixed priority", "ours")}
    assert found["ours"] > 0.92
    assert found["ours"] > max(found["FIFO"], found["EDF"], found["fixed priority"]), found


@pytest.mark.parametrize("trace", range(4))
def test_no_order_keeps_more_than_the_bound_of_a_knapsack(bench: ModuleType, trace: int) -> None:
    jobs = bench.TRACES[trace].jobs(900, seed=1, tail=0)
    bound = bench.bound(jobs)
    assert all(bench.value(jobs, bench.in_time(jobs, make())) <= bound <= 1 for make in bench.POLICIES.values())


def test_a_knapsack_is_filled_with_what_is_worth_most_a_second_as_far_as_it_is_due_in_time(bench: ModuleType) -> None:
    urgent, cheap = bench.Kind("u", Tier.NORMAL, 60, 60), bench.Kind("c", Tier.BACKGROUND, 60, 120)
    jobs = [bench.Job(f"u{n}", urgent, 0.0, 60.0, 60.0, counted=True) for n in range(10)]
    jobs += [bench.Job(f"c{n}", cheap, 0.0, 60.0, 120.0, counted=True) for n in range(12)]
    assert bench.bound(jobs) == pytest.approx((8 * 4 + 8) / (10 * 4 + 12))

"""Under overload the order keeps what is worth most, and drops what is lost; with room it meets what EDF meets.

The traces and the other orders are those of `benchmarks/bench_overload.py`, on a virtual clock, shorter.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks/bench_overload.py"
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


def test_a_lasting_overload_costs_less_than_under_the_plain_orders(bench: ModuleType) -> None:
    found = {order: kept(bench, 1, order) for order in ("FIFO", "EDF", "fixed priority", "ours")}
    assert found["ours"] > 0.84
    assert found["ours"] > max(found["FIFO"], found["EDF"], found["fixed priority"]), found


def test_a_lasting_overload_starves_no_class(bench: ModuleType) -> None:
    jobs = bench.TRACES[1].jobs(1800, seed=1, tail=600)
    met = bench.in_time(jobs, bench.POLICIES["ours"]())
    assert all(bench.value(jobs, met, kind) > 0.4 for kind in bench.KINDS)

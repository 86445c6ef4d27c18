"""A node short of memory or processors takes less, one that is fine takes all, and none fails for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from duetime.scheduler.worker.machine_load import (
    ENOUGH_MEMORY_RATIO,
    FULL_LOAD_PER_CORE,
    MIN_MEMORY_RATIO,
    OVERLOAD_PER_CORE,
    LoadShedder,
    Machine,
    allowance,
)
from hypothesis import given
from hypothesis import strategies as st

THREADS = st.integers(1, 500)
PARTS = st.floats(0, 1)
LOADS = st.floats(0, 100)


@given(THREADS, st.floats(ENOUGH_MEMORY_RATIO, 1), st.floats(0, FULL_LOAD_PER_CORE))
def test_without_pressure_every_thread_works(threads: int, free: float, load: float) -> None:
    assert allowance(threads, free_memory=free, load=load) == threads


@given(THREADS, st.floats(0, MIN_MEMORY_RATIO, exclude_max=True), LOADS)
def test_nothing_starts_when_memory_is_nearly_gone(threads: int, free: float, load: float) -> None:
    assert allowance(threads, free_memory=free, load=load) == 0


@given(THREADS, st.floats(MIN_MEMORY_RATIO, 1), LOADS)
def test_else_one_thread_works_at_least(threads: int, free: float, load: float) -> None:
    assert 1 <= allowance(threads, free_memory=free, load=load) <= threads


@given(THREADS, PARTS, PARTS, LOADS, LOADS)
def test_more_pressure_never_means_more_threads(
    threads: int, free: float, other_free: float, load: float, other_load: float
) -> None:
    low, high = sorted([free, other_free])
    idle, busy = sorted([load, other_load])
    worst = allowance(threads, free_memory=low, load=busy)
    assert worst <= allowance(threads, free_memory=low, load=idle) <= allowance(threads, free_memory=high, load=idle)


@pytest.mark.parametrize(
    ("free", "load", "threads"),
    [(0.125, 0, 8), (0.2, 4, 8), (0.125, 4, 8), (0.06, 0, 1), (0.05, 0, 1), (0.5, 5, 4), (0.5, OVERLOAD_PER_CORE, 1)],
)
def test_between_the_bounds_it_falls_in_proportion_to_what_is_scarcer(free: float, load: float, threads: int) -> None:
    assert allowance(16, free_memory=free, load=load) == threads


def test_a_node_without_threads_takes_nothing() -> None:
    assert allowance(0, free_memory=1, load=0) == 0


# --- reading the machine ----------------------------------------------------------------------------------------------


def write(root: Path, **files: str) -> Machine:
    """Lay out files (`proc__meminfo` is proc/meminfo, dots as in `memory_max`) and return the machine they tell of."""
    names = {"memory_max": "memory.max", "memory_current": "memory.current", "memory_stat": "memory.stat"}
    for name, text in files.items():
        *folders, last = name.split("__")
        path = root.joinpath(*folders, names.get(last, last))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Machine(root, load_average=lambda: (6.0, 1.0, 1.0), cores=4)


MEMINFO = "MemTotal:       16000 kB\nMemFree:          100 kB\nMemAvailable:    4000 kB\n"


def test_memory_is_what_the_system_calls_available(tmp_path: Path) -> None:
    assert write(tmp_path, proc__meminfo=MEMINFO).free_memory() == 0.25


def test_load_is_counted_for_each_core(tmp_path: Path) -> None:
    assert write(tmp_path).load() == 1.5


def test_a_system_that_reports_nothing_is_under_no_pressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.getloadavg", raising=False)
    silent = Machine(tmp_path / "nowhere")
    assert silent.free_memory() == 1
    assert silent.load() == 0


def test_a_load_that_cannot_be_had_is_none(tmp_path: Path) -> None:
    def fails() -> tuple[float, float, float]:
        raise OSError("unobtainable")

    assert Machine(tmp_path, load_average=fails).load() == 0


@pytest.mark.parametrize("meminfo", ["", "MemTotal: 0 kB\nMemAvailable: 0 kB", "MemTotal:\nMemAvailable: x", "\0:\0"])
def test_a_meminfo_that_is_not_understood_counts_as_no_pressure(tmp_path: Path, meminfo: str) -> None:
    assert write(tmp_path, proc__meminfo=meminfo).free_memory() == 1


def test_the_limit_of_a_container_counts_where_it_is_tighter(tmp_path: Path) -> None:
    group = {"sys__fs__cgroup__memory_max": "1000\n", "sys__fs__cgroup__memory_current": "900\n"}
    machine = write(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/\n", **group)
    assert machine.free_memory() == pytest.approx(0.1)


def test_file_pages_that_can_be_dropped_count_as_free(tmp_path: Path) -> None:
    group = {"sys__fs__cgroup__memory_max": "1000", "sys__fs__cgroup__memory_current": "900"}
    stat = "anon 300\ninactive_file 500\nactive_file 100\n"
    assert write(tmp_path, sys__fs__cgroup__memory_stat=stat, **group).free_memory() == pytest.approx(0.6)


def test_a_group_without_a_limit_leaves_the_machines_own(tmp_path: Path) -> None:
    group = {"sys__fs__cgroup__memory_max": "max\n", "sys__fs__cgroup__memory_current": "900\n"}
    assert write(tmp_path, proc__meminfo=MEMINFO, **group).free_memory() == 0.25


def test_the_limit_of_a_group_above_counts_too(tmp_path: Path) -> None:
    groups = {
        "sys__fs__cgroup__system__memory_max": "1000",
        "sys__fs__cgroup__system__memory_current": "960",
        "sys__fs__cgroup__system__duetime__memory_max": "max",
        "sys__fs__cgroup__system__duetime__memory_current": "10",
    }
    machine = write(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/system/duetime\n", **groups)
    assert machine.free_memory() == pytest.approx(0.04)
    assert allowance(16, free_memory=machine.free_memory(), load=machine.load()) == 0


def test_a_group_over_its_limit_has_nothing_left(tmp_path: Path) -> None:
    group = {"sys__fs__cgroup__memory_max": "1000", "sys__fs__cgroup__memory_current": "1200"}
    assert write(tmp_path, **group).free_memory() == 0


def test_a_path_of_a_group_that_leads_out_is_not_followed(tmp_path: Path) -> None:
    outside = {"sys__elsewhere__memory_max": "1000", "sys__elsewhere__memory_current": "999"}
    machine = write(tmp_path, proc__meminfo=MEMINFO, proc__self__cgroup="0::/../../elsewhere\n", **outside)
    assert machine.free_memory() == 0.25
    assert write(tmp_path, proc__self__cgroup="0::/../elsewhere\n").free_memory() == 0.25


def test_this_machine_can_be_read() -> None:
    machine = Machine()
    assert 0 <= machine.free_memory() <= 1
    assert machine.load() >= 0


def test_pressure_is_read_once_a_second_at_most() -> None:
    reads, at, load = list[float](), [0.0], [0.0]

    def load_average() -> tuple[float, float, float]:
        reads.append(at[0])
        return load[0], 0.0, 0.0

    pressure = LoadShedder(Machine(Path("/nowhere"), load_average, cores=1), clock=lambda: at[0])
    assert [pressure(8), pressure(4)] == [8, 4]
    load[0] = OVERLOAD_PER_CORE
    at[0] = 0.9
    assert pressure(8) == 8
    at[0] = 1.0
    assert [pressure(8), pressure(8)] == [1, 1]
    assert reads == [0.0, 1.0]

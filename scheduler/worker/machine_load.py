"""Load of the machine: free memory and runnable processes, as far as the system reports them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final


def all_of_them(threads: int) -> int:
    """Use every thread, whatever the load of the machine."""
    return threads


def load_average() -> tuple[float, float, float]:
    """Return the machine's runnable processes over 1, 5 and 15 minutes; 0 on systems that do not count them."""
    return os.getloadavg() if hasattr(os, "getloadavg") else (0.0, 0.0, 0.0)


READING_FRESH_S = 1.0
"""Seconds for which a measurement is reused, since every take needs one."""


@dataclass(frozen=True, slots=True)
class Machine:
    """Measures load under `root` (a folder with `proc` and `sys`); a system without such figures counts as idle.

    Inside a container the limits of its control group (version 2, its own and its ancestors') count too. The kernel
    kills a process for these long before the machine itself is full.
    """

    root: Path = Path("/")
    load_average: Callable[[], tuple[float, float, float]] = load_average
    cores: int = os.cpu_count() or 1  # of the machine, as its load average is, in a container too

    def free_memory(self) -> float:
        """Return the available part of memory, 0 to 1; 1 where it is unknown."""
        parts = [part for part in (self._of_machine(), *self._of_groups()) if part is not None]
        return min(parts, default=1.0)

    def load(self) -> float:
        """Return the runnable processes per core, averaged over a minute; 0 where they are unknown."""
        try:
            return self.load_average()[0] / self.cores
        except OSError:
            return 0.0

    def _of_machine(self) -> float | None:
        lines = _text(self.root / "proc/meminfo").splitlines()
        fields = dict(line.split(":", 1) for line in lines if ":" in line)
        total, available = (_number(fields.get(name, "").split()[:1]) for name in ("MemTotal", "MemAvailable"))
        return _part(available, total)

    def _of_groups(self) -> list[float | None]:
        top = self.root / "sys/fs/cgroup"
        return [_left(folder) for folder in self._groups(top)]

    def _groups(self, top: Path) -> list[Path]:
        """Return the control group of this process and its ancestors, up to the top that is visible here."""
        lines = _text(self.root / "proc/self/cgroup").splitlines()
        own = next((line[3:] for line in lines if line.startswith("0::/")), "/")
        folder = top if ".." in own else top / own.strip("/")
        return [folder, *(above for above in folder.parents if above == top or top in above.parents)]


class LoadShedder:
    """Computes how many of its threads a worker should use now; measures once a second at most."""

    def __init__(self, machine: Machine, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._machine = machine
        self._clock = clock
        self._read_at: float | None = None
        self._free_memory, self._load = 1.0, 0.0

    def __call__(self, threads: int) -> int:
        now = self._clock()
        if self._read_at is None or now - self._read_at >= READING_FRESH_S:
            self._read_at = now
            self._free_memory, self._load = self._machine.free_memory(), self._machine.load()
        return allowance(threads, free_memory=self._free_memory, load=self._load)


def _left(group: Path) -> float | None:
    """Return the free part of a group's memory. File pages that the kernel can drop at once count as free."""
    limit, used = (_number([_text(group / name)]) for name in ("memory.max", "memory.current"))
    if used is None:
        return None
    lines = (line.split() for line in _text(group / "memory.stat").splitlines())
    idle = next((_number(line[1:]) for line in lines if line[:1] == ["inactive_file"]), None)
    return _part(None if limit is None else limit - max(used - (idle or 0), 0), limit)


def _part(left: int | None, whole: int | None) -> float | None:
    return None if left is None or not whole else min(max(left / whole, 0.0), 1.0)


def _number(words: list[str]) -> int | None:
    text = words[0].strip() if words else ""
    return int(text) if text.isascii() and text.isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""


ENOUGH_MEMORY_RATIO: Final = 0.20
"""Free part of memory above which every thread may work."""

MIN_MEMORY_RATIO: Final = 0.05
"""Free part of memory below which nothing new starts: running handlers need the rest."""

FULL_LOAD_PER_CORE: Final = 2.0
"""Runnable processes per core up to which every thread may work."""

OVERLOAD_PER_CORE: Final = 6.0
"""Runnable processes per core above which only one thread works."""


def allowance(threads: int, *, free_memory: float, load: float) -> int:
    """Return how many of its threads a node should use now.

    `free_memory` is the available part of memory, 0 to 1; `load` is runnable processes per core. With enough of both
    all threads work. Else fewer do, in proportion to the scarcer one, but at least one, and none when memory is nearly
    exhausted. The curve is linear, so that the result does not jump around a threshold.
    """
    if free_memory < MIN_MEMORY_RATIO:
        return 0
    by_memory = (free_memory - MIN_MEMORY_RATIO) / (ENOUGH_MEMORY_RATIO - MIN_MEMORY_RATIO)
    by_load = (OVERLOAD_PER_CORE - load) / (OVERLOAD_PER_CORE - FULL_LOAD_PER_CORE)
    part = min(by_memory, by_load, 1.0)
    return max(1, round(threads * part)) if threads > 0 else 0

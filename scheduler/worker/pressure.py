"""How many of its threads a node uses that is short of memory or of processors: it takes less, and nothing fails."""

from __future__ import annotations

from typing import Final

ENOUGH_MEMORY: Final = 0.20
"""The free part of memory from which on every thread may work."""

NO_MEMORY: Final = 0.05
"""The free part below which nothing more is started: what runs needs the rest to end."""

FULL_LOAD: Final = 2.0
"""Runnable processes for each core up to which every thread may work."""

OVERLOAD: Final = 6.0
"""Runnable processes for each core from which on one thread works."""


def allowance(threads: int, *, free_memory: float, load: float) -> int:
    """Say how many of its threads a node should use now.

    `free_memory` is the part of memory that can still be had, 0 to 1; `load` is runnable processes for each core. All
    threads with enough of both; fewer in proportion, as the scarcer of the two falls; one at least, but none when
    memory is nearly gone. Linear, so that the answer does not jump around a threshold.
    """
    if free_memory < NO_MEMORY:
        return 0
    by_memory = (free_memory - NO_MEMORY) / (ENOUGH_MEMORY - NO_MEMORY)
    by_load = (OVERLOAD - load) / (OVERLOAD - FULL_LOAD)
    part = min(by_memory, by_load, 1.0)
    return max(1, round(threads * part)) if threads > 0 else 0

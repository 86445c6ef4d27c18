"""The result of a put and the lease of a run, for the queue in memory. Twin: lua/leases/leases.lua."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from duetime.scheduler.queue.port import Entry


class Put(Enum):
    """Result of a put: a new run, a run that moved, or no change."""

    ADDED = auto()
    MOVED = auto()
    KEPT = auto()


@dataclass(slots=True)
class Lease:
    """A run held by a worker from `granted` to `until`.

    `again` is an entry that is placed when the lease ends, not to start before its time.
    """

    entry: Entry
    token: str
    worker: str
    granted: float
    until: float
    again: tuple[Entry, float] | None = None

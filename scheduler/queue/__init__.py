"""The dispatch queue: what is due, in order, handed to idle workers when everything it needs can be reserved.

It is disposable. The database decides; losing a queue at any moment loses nothing.
"""

from duetime.scheduler.queue.memory import MemoryQueue
from duetime.scheduler.queue.port import (
    MOST_AHEAD,
    Cancelled,
    DispatchQueue,
    Entry,
    Explanation,
    Finish,
    Grant,
    PoolUse,
    QueueLost,
    QueueTaken,
    QueueUnavailable,
    Shortage,
    Stats,
    Take,
    Threads,
    Why,
)
from duetime.scheduler.rules.admission import Kind, Limits
from duetime.scheduler.rules.feedback import Report
from duetime.scheduler.rules.shares import Shares

__all__ = [
    "MOST_AHEAD",
    "Cancelled",
    "DispatchQueue",
    "Entry",
    "Explanation",
    "Finish",
    "Grant",
    "Kind",
    "Limits",
    "MemoryQueue",
    "PoolUse",
    "QueueLost",
    "QueueTaken",
    "QueueUnavailable",
    "Report",
    "Shares",
    "Shortage",
    "Stats",
    "Take",
    "Threads",
    "Why",
]

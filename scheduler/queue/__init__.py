"""The dispatch queue: what is due, in order, handed to idle workers when everything it needs can be reserved.

It is disposable. The database decides; losing a queue at any moment loses nothing.
"""

from duetime.scheduler.queue.constants import MAX_COUNTED_AHEAD
from duetime.scheduler.queue.port import (
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
    ThreadUse,
    Why,
)
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.breaker import Report
from duetime.scheduler.rules.shares import Shares

__all__ = [
    "MAX_COUNTED_AHEAD",
    "Cancelled",
    "DispatchQueue",
    "Entry",
    "Explanation",
    "Finish",
    "Grant",
    "Kind",
    "Limits",
    "PoolUse",
    "QueueLost",
    "QueueTaken",
    "QueueUnavailable",
    "Report",
    "Shares",
    "Shortage",
    "Stats",
    "Take",
    "ThreadUse",
    "Why",
]

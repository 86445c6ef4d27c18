"""The dispatch queue: due runs in start order; a worker gets a run when everything it needs can be reserved.

It is disposable: the database decides who runs what, so losing a queue at any moment loses no run.
"""

from duetime.scheduler.queue.constants import MAX_RUNS_COUNTED_AHEAD
from duetime.scheduler.queue.port import (
    Cancelled,
    DispatchQueue,
    Entry,
    Finish,
    Grant,
    QueueChange,
    QueueDamaged,
    QueueLost,
    QueueTaken,
    QueueUnavailable,
    Take,
)
from duetime.scheduler.queue.reports import Explanation, PoolUse, Shortage, Stats, ThreadUse, Why
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.breaker import Report
from duetime.scheduler.rules.shares import Shares

__all__ = [
    "MAX_RUNS_COUNTED_AHEAD",
    "Cancelled",
    "DispatchQueue",
    "Entry",
    "Explanation",
    "Finish",
    "Grant",
    "Kind",
    "Limits",
    "PoolUse",
    "QueueChange",
    "QueueDamaged",
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

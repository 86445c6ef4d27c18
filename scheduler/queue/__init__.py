"""The dispatch queue: what is due, in order, handed to idle workers when everything it needs can be reserved.

It is disposable. The database decides; losing a queue at any moment loses nothing.
"""

from duetime.scheduler.queue.memory import MemoryQueue
from duetime.scheduler.queue.port import Cancelled, DispatchQueue, Entry, Explanation, Stats, Take

__all__ = ["Cancelled", "DispatchQueue", "Entry", "Explanation", "MemoryQueue", "Stats", "Take"]

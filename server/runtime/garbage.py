"""Garbage collections: rarer, and of new objects only, in a process that has loaded what it needs."""

from __future__ import annotations

import gc

NEW_OBJECTS_PER_COLLECTION = 10_000
"""Python's own 700 make several collections of each batch of runs, whose objects are in use until it is stored."""


def collect_less() -> None:
    """Call this once everything is loaded and nothing runs yet.

    Objects loaded so far live as long as the process. `gc.freeze` removes them from garbage collections. These would
    otherwise stop all threads for tens of milliseconds in a burst, and delay the end of the process by a second or
    more.
    """
    gc.collect()
    gc.freeze()
    _, *older = gc.get_threshold()
    gc.set_threshold(NEW_OBJECTS_PER_COLLECTION, *older)

"""The log of starts of a sliding rate: what started in the window that ends now. Twin: lua/admission/start_log.lua.

An entry is (time, units), the oldest first. Starts of one slot, a 256th of the window, share an entry that has the time
of the last of them. So a log has at most `MAX_LOG_SLOTS` + 2 entries. No unit leaves it before its window has passed,
and none stays for longer than a slot more. The limit always holds, and at most 1/256 of the rate is lost. While starts
are further apart than a slot, the log is exact.
"""

from __future__ import annotations

import math

MAX_LOG_SLOTS = 256
"""Slots of a window: the starts of one share an entry."""

StartLog = tuple[tuple[float, float], ...]


def slot_of(at: float, window: float) -> int:
    return math.floor(at * MAX_LOG_SLOTS / window)


def total(log: StartLog) -> float:
    """Return the units in a log; added up again each time, so that rounding does not build up."""
    return sum((units for _, units in log), 0.0)


def add_start(log: StartLog, at: float, units: float, window: float) -> StartLog:
    """Return the log with a start at `at`, which may be older than its last entry."""
    slot, after = slot_of(at, window), len(log)
    while after and slot_of(log[after - 1][0], window) > slot:
        after -= 1
    if after and slot_of(log[after - 1][0], window) == slot:
        last, known = log[after - 1]
        return (*log[: after - 1], (max(last, at), known + units), *log[after:])
    return (*log[:after], (at, units), *log[after:])


def remove_start(log: StartLog, at: float, units: float, window: float) -> StartLog:
    """Return the log without units that started at `at`, if they are still in it."""
    slot = slot_of(at, window)
    left = ((then, max(0.0, known - units) if slot_of(then, window) == slot else known) for then, known in log)
    return tuple((then, known) for then, known in left if known > 0)


def current(log: StartLog, window: float, now: float) -> StartLog:
    """Return the log without the entries whose window is over at `now`."""
    gone = 0
    while gone < len(log) and log[gone][0] + window <= now:
        gone += 1
    return log[gone:]


def resize(log: StartLog, window: float) -> StartLog:
    """Return the log in the slots of another window; empty for none."""
    found: StartLog = ()
    for at, units in log if window > 0 else ():
        found = add_start(found, at, units, window)
    return found


def room_at(log: StartLog, units: float, window: float) -> float | None:
    """Return when so many units have left the log, None when it has fewer."""
    left = 0.0
    for at, known in log:
        left += known
        if left >= units:
            return at + window
    return None

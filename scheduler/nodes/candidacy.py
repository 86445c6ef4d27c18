"""When a process may become the runner: at once, or after its client has shown that it stays.

A host may start a server only to see what it is, and end it without patience a second later. Such a process must not
hold the runs of others: what it had claimed would look as if it had crashed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import IntEnum

MIN_AGE_S = 1.0
"""Seconds that a process leaves the lock to others, whose clients have certainly stayed."""

LISTENER_AGE_S = 10.0
"""Seconds after which a client that has only read lists counts as one that stays: no probe takes that long."""

START_S = 3.0
"""Seconds within which a process that may become the runner is it, unless something keeps it from that."""


class Sign(IntEnum):
    """The strongest sign so far that the client of a process stays."""

    NONE = 0  # a handshake: every probe makes one
    LISTED = 1  # it read what tools there are
    CALLED = 2  # it wanted something done


class Candidacy:
    """The signs of one client, and what follows from them. `clock` is in monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_at = self._noted_at = clock()
        self._sign = Sign.NONE

    def note(self, sign: Sign) -> bool:
        """Note a sign of the client; return whether it is stronger than those before."""
        stronger = sign > self._sign
        if stronger:
            self._sign, self._noted_at = sign, self._clock()
        return stronger

    def wait(self) -> float | None:
        """Return the seconds until the process may become the runner, None while nothing says that it ever may."""
        return None if self._sign is Sign.NONE else max(0.0, self._starts_at - self._clock())

    @property
    def is_starting(self) -> bool:
        """Whether the process becomes the runner within seconds, unless another one is."""
        return self._sign is not Sign.NONE and self._clock() < self._starts_at + START_S

    @property
    def _starts_at(self) -> float:
        age = LISTENER_AGE_S if self._sign is Sign.LISTED else MIN_AGE_S
        return max(self._began_at + age, self._noted_at)

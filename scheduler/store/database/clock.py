"""The clock of the store: the database server's where there is a server, since many machines have to agree.

The server is asked when the store is opened and then now and then, never by whoever wants to know the time: between
two answers its clock is carried on by this process's monotonic one. Cristian's algorithm: the answer was true halfway
between the question and its arrival, give or take half of the time between (F. Cristian, "Probabilistic clock
synchronization", 1989).
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

ASKED_EVERY = 30.0
"""Seconds of use between two questions."""

LEAP_CALM_S = 60.0
"""Seconds after a leap within which other processes may not have asked, or not renewed a lease by the new time."""

TOLERATED = 5.0
"""Seconds that the clock of this machine may be off before that is said."""

_SAMPLES = 3
_JUMP = 1.0
_SLOWEST = 0.5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

log = logging.getLogger(__name__)


def utc_now() -> datetime:
    return datetime.now(UTC)


class Sample(NamedTuple):
    """A server's time, with this process's monotonic seconds at the question and at the answer."""

    at: datetime
    asked: float
    answered: float


def on_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="duetime-clock", daemon=True).start()


class ServerClock:
    """The clock of a server. Calling it asks nothing; it never goes backwards.

    When the server's clock was set back, time passes at half its speed until the two agree again. `ask` may raise what
    it likes after the first time: then the clock goes on as it is. `soon` runs a piece of work beside the caller.
    """

    def __init__(
        self,
        ask: Callable[[], Sample],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], datetime] | None = None,
        soon: Callable[[Callable[[], None]], None] = on_a_thread,
    ) -> None:
        self._ask = ask
        self._monotonic = monotonic
        self._wall = wall or utc_now
        self._soon = soon
        self._lock = threading.Lock()
        self._asking = self._warned = False
        self._last = self._last_at = 0.0
        self._offset = math.nan
        self._leapt_at = -math.inf
        self._learn()

    def __call__(self) -> datetime:
        return _EPOCH + timedelta(seconds=self._seconds())

    def skew(self) -> float:
        """Return how many seconds the wall clock of this process is ahead of the server's; below 0: behind."""
        return _seconds(self._wall()) - self._seconds()

    def leapt(self) -> bool:
        """Whether the server's clock was moved lately, which others may not know yet, or this one still lags behind."""
        with self._lock:
            at = self._monotonic()
            return at - self._leapt_at <= LEAP_CALM_S or self._last - (at + self._offset) > _JUMP

    def _seconds(self) -> float:
        with self._lock:
            at = self._monotonic()
            stale = not self._asking and self._stale(at)
            self._asking |= stale
            slowest = self._last + (at - self._last_at) * _SLOWEST
            self._last, self._last_at = max(at + self._offset, slowest), at
            now = self._last
        if stale:
            self._soon(self._learn_again)
        return now

    def _stale(self, at: float) -> bool:
        """Whether it is time to ask again: also when this machine slept, which its monotonic clock does not notice."""
        return at >= self._ask_at or abs(_seconds(self._wall()) - at - self._wall_offset) > _JUMP

    def _learn_again(self) -> None:
        with suppress(Exception):  # what is wrong with the server, whoever needs it says
            self._learn()
        with self._lock:
            self._asking = False
            self._postpone()

    def _learn(self) -> None:
        best = min((self._ask() for _ in range(_SAMPLES)), key=lambda sample: sample.answered - sample.asked)
        with self._lock:
            before, self._offset = self._offset, _seconds(best.at) - (best.asked + best.answered) / 2
            if abs(self._offset - before) > _JUMP:
                self._leapt_at = self._monotonic()
            self._postpone()
        self._say_if_wrong()

    def _postpone(self) -> None:
        at = self._monotonic()
        self._ask_at = at + ASKED_EVERY
        self._wall_offset = _seconds(self._wall()) - at

    def _say_if_wrong(self) -> None:
        off = self._wall_offset - self._offset
        if abs(off) > TOLERATED and not self._warned:
            self._warned = True
            side = "ahead of" if off > 0 else "behind"
            log.warning(
                "the clock of this machine is %.0f s %s the database's, which decides; set it right", abs(off), side
            )


def _seconds(instant: datetime) -> float:
    return (instant - _EPOCH).total_seconds()

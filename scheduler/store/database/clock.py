"""The deciding clock: the database server's where there is one, because many machines must agree.

The server is sampled when the store is opened and then periodically, never by a reader of the clock. Between samples
this process's monotonic clock carries it on. Cristian's algorithm: a reply was true halfway between request and
arrival, give or take half of the round trip (F. Cristian, "Probabilistic clock synchronization", 1989).
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

from duetime.scheduler.rules.time.durations import EPOCH

CLOCK_SAMPLE_INTERVAL_S = 30.0
"""Seconds of use between two samples."""

LEAP_CALM_S = 60.0
"""Seconds after a jump within which other processes may not have sampled it, or not renewed a lease by it."""

MAX_CLOCK_OFFSET_S = 5.0
"""Seconds of skew of this machine's clock above which the log reports it."""

_SAMPLE_COUNT = 3
_MIN_LEAP_S = 1.0
_SLOWED_CLOCK_RATIO = 0.5
"""Seconds that pass here in each real one, after the server's clock was set back and until the two agree."""

log = logging.getLogger(__name__)


def utc_now() -> datetime:
    return datetime.now(UTC)


class Sample(NamedTuple):
    """Time of a server, and this process's monotonic seconds at request and at reply."""

    at: datetime
    asked: float
    answered: float


def on_a_thread(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="duetime-clock", daemon=True).start()


class ServerClock:
    """The clock of a server. A call makes no query; the time never goes backwards.

    After the server's clock was set back, time passes at half speed until the two agree. When `ask` raises after the
    first sample, the clock continues from the last one. `soon` runs work off the caller's thread.
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
        return EPOCH + timedelta(seconds=self._seconds())

    def skew(self) -> float:
        """Return by how many seconds this process's wall clock is ahead of the server's; negative when behind."""
        return _seconds(self._wall()) - self._seconds()

    def leapt(self) -> bool:
        """Whether the server's clock jumped lately: other processes may not know, or this one still lags behind."""
        with self._lock:
            at = self._monotonic()
            return at - self._leapt_at <= LEAP_CALM_S or self._last - (at + self._offset) > _MIN_LEAP_S

    def _seconds(self) -> float:
        with self._lock:
            at = self._monotonic()
            stale = not self._asking and self._stale(at)
            self._asking |= stale
            slowest = self._last + (at - self._last_at) * _SLOWED_CLOCK_RATIO
            self._last, self._last_at = max(at + self._offset, slowest), at
            now = self._last
        if stale:
            self._ask_soon()
        return now

    def _ask_soon(self) -> None:
        """Ask the server on another thread; where none can be started now, a later call does."""
        try:
            self._soon(self._learn_again)
        except RuntimeError as error:
            log.debug("the clock of the server cannot be read now: %s", error)
            self._asking = False

    def _stale(self, at: float) -> bool:
        """Whether a new sample is due: also after this machine slept, which its monotonic clock does not notice."""
        return at >= self._ask_at or abs(_seconds(self._wall()) - at - self._wall_offset) > _MIN_LEAP_S

    def _learn_again(self) -> None:
        with suppress(Exception):  # the next query reports what is wrong with the server
            self._learn()
        with self._lock:
            self._asking = False
            self._postpone()

    def _learn(self) -> None:
        best = min((self._ask() for _ in range(_SAMPLE_COUNT)), key=lambda sample: sample.answered - sample.asked)
        with self._lock:
            before, self._offset = self._offset, _seconds(best.at) - (best.asked + best.answered) / 2
            if abs(self._offset - before) > _MIN_LEAP_S:
                self._leapt_at = self._monotonic()
            self._postpone()
        self._warn_if_wrong()

    def _postpone(self) -> None:
        at = self._monotonic()
        self._ask_at = at + CLOCK_SAMPLE_INTERVAL_S
        self._wall_offset = _seconds(self._wall()) - at

    def _warn_if_wrong(self) -> None:
        off = self._wall_offset - self._offset
        if abs(off) > MAX_CLOCK_OFFSET_S and not self._warned:
            self._warned = True
            side = "ahead of" if off > 0 else "behind"
            log.warning(
                "this machine's clock is %.0f s %s the database clock, which decides; correct it", abs(off), side
            )


def _seconds(instant: datetime) -> float:
    return (instant - EPOCH).total_seconds()

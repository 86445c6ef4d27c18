"""The start of a process: a shared database that restarts at that moment is waited for, and not for long."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from duetime.scheduler.errors import StoreUnavailable

START_PATIENCE_S: Final = 10.0
"""Seconds for which a start waits: a restart of PostgreSQL takes a few. Whoever supervises the process waits longer."""

START_RETRY_INTERVAL_S: Final = 0.5

T = TypeVar("T")

log = logging.getLogger(__name__)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def once_reachable(
    database_url: str,
    make: Callable[[], T],
    *,
    pause: Callable[[float], bool] = _sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Return what `make` makes; while a shared database is away, try again for 10 s. A file is tried once.

    `pause` returns whether the process ends. Raises what `make` raises, StoreUnavailable after the last try.
    """
    until = clock() + START_PATIENCE_S
    is_news = True
    while True:
        try:
            return make()
        except StoreUnavailable as error:
            if database_url.startswith("sqlite") or clock() >= until:
                raise
            if is_news:
                log.warning("%s. This process waits %.0f s for the database", str(error).rstrip("."), START_PATIENCE_S)
            is_news = False
            if pause(START_RETRY_INTERVAL_S):
                raise

"""Notes in the database which workers elsewhere call, and the actions that each asks for."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from threading import Lock
from typing import Final

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.principal import Principal
from duetime.scheduler.store.external.external_workers import ExternalWorkers

NOTED_INTERVAL_S: Final = 5.0
"""Seconds within which a worker's call is noted once, however often it calls."""

ASKED_KEPT_S: Final = 300.0
"""Seconds for which an action counts as asked for: programs with one key may ask for different actions in turn."""


class CallerNotes:
    """Notes calls of workers elsewhere, few of many. Thread-safe."""

    def __init__(self, workers: ExternalWorkers, clock: Callable[[], float] = time.monotonic) -> None:
        self._workers = workers
        self._clock = clock
        self._lock = Lock()
        self._noted: dict[tuple[str, ...], float] = {}
        self._asked: dict[tuple[str, str, str], float] = {}

    def asked(self, by: Principal, actions: Collection[str], client: str | None) -> None:
        """Note that a worker asks for actions, with those that another program of its key asked for lately."""
        with self._lock:
            now = self._clock()
            self._asked = {known: at for known, at in self._asked.items() if now - at < ASKED_KEPT_S}
            self._asked |= {(by.tenant, by.user, action): now for action in actions}
            names = tuple(sorted(name for *of, name in self._asked if of == [by.tenant, by.user]))
            news = self._is_news(("asked", by.tenant, by.user, client or "", *names))
        if news:
            self._workers.asked(by.tenant, by.user, names, client=client, everywhere=by.operator)

    def called(self, by: Principal) -> None:
        """Note that a worker reported on a run: the answer to its report does not depend on this note."""
        with self._lock:
            news = self._is_news(("called", by.tenant, by.user))
        if news:
            with suppress(StoreUnavailable):
                self._workers.called(by.tenant, by.user)

    def _is_news(self, call: tuple[str, ...]) -> bool:
        """Whether a call was not noted a moment ago; under the lock."""
        now = self._clock()
        self._noted = {known: at for known, at in self._noted.items() if now - at < NOTED_INTERVAL_S}
        return self._noted.setdefault(call, now) == now

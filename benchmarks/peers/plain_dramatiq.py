"""Plain Dramatiq with its RedisBroker and default middleware; a window of Redis limits the provider's calls."""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from benchmarks.peers.protocol import RETRY_DELAY_S, New, Peer, Place, ask, mark
from benchmarks.peers.provider import CALLS_PER_S, MAX_CALLS_IN_FLIGHT


class PlainDramatiq(Peer):
    def set_up(self, place: Place) -> None:
        self._dramatiq: Any = import_module("dramatiq")
        self._broker = import_module("dramatiq.brokers.redis").RedisBroker(url=place.redis)
        limits = import_module("dramatiq.rate_limits")
        backend = import_module("dramatiq.rate_limits.backends").RedisBackend(url=place.redis)
        window = limits.WindowRateLimiter(backend, "calls", limit=CALLS_PER_S, window=1)
        slots = limits.ConcurrentRateLimiter(backend, "slots", limit=MAX_CALLS_IN_FLIGHT)

        def limited(name: str) -> None:
            with slots.acquire(), window.acquire():
                ask(name)

        delay_ms = int(RETRY_DELAY_S * 1000)
        options = {"max_retries": 1000, "min_backoff": delay_ms, "max_backoff": delay_ms}
        self._mark = self._dramatiq.actor(broker=self._broker, actor_name="mark")(mark)
        self._ask = self._dramatiq.actor(broker=self._broker, actor_name="ask", **options)(limited)

    def schedule(self, new: Sequence[New], batch: int) -> None:  # noqa: ARG002 - it has no call for several
        for each in new:
            actor = self._ask if each.asks else self._mark
            delay = {} if each.due is None else {"delay": int(1000 * (each.due - time.time()))}
            actor.send_with_options(args=(each.name,), **delay)

    def work(self, threads: int) -> None:
        self._dramatiq.Worker(self._broker, worker_threads=threads).start()

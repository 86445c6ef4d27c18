"""Huey with Redis: blocking reads, no results, threads; its own rate limit for the provider's calls."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from benchmarks.peers.protocol import New, Peer, Place, ask, mark
from benchmarks.peers.provider import CALLS_PER_S


class Huey(Peer):
    def set_up(self, place: Place) -> None:
        self._huey: Any = import_module("huey").RedisHuey("bench", url=place.redis, results=False)
        limited = self._huey.rate_limit("provider", CALLS_PER_S, 1)(ask)
        self._mark = self._huey.task(name="mark")(mark)
        self._ask = self._huey.task(name="ask", retries=1000)(limited)

    def schedule(self, new: Sequence[New], batch: int) -> None:  # noqa: ARG002 - it has no call for several
        for each in new:
            task = self._ask if each.asks else self._mark
            if each.due is None:
                task(each.name)
            else:
                task.schedule(args=(each.name,), eta=datetime.fromtimestamp(each.due, UTC))

    def work(self, threads: int) -> None:
        self._huey.create_consumer(workers=threads, scheduler_interval=1, periodic=False).start()

"""Taskiq with a Redis stream, which is acknowledged, and a Redis list as the source of schedules; coroutines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from benchmarks.peers.protocol import EventLoop, New, Peer, Place, mark

SCHEDULE_UPDATE_INTERVAL = timedelta(seconds=1)


class Taskiq(Peer):
    def set_up(self, place: Place) -> None:
        taskiq_redis = import_module("taskiq_redis")
        self._loop = EventLoop()
        self._broker: Any = taskiq_redis.RedisStreamBroker(place.redis, consumer_id="0")
        self._source: Any = taskiq_redis.ListRedisScheduleSource(place.redis)

        async def marked(name: str) -> None:
            mark(name)

        self._mark = self._broker.task(task_name="mark")(marked)
        self._loop.run(self._broker.startup())

    def schedule(self, new: Sequence[New], batch: int) -> None:  # noqa: ARG002 - it has no call for several
        self._loop.run(self._schedule(new))

    async def _schedule(self, new: Sequence[New]) -> None:
        for each in new:
            if each.due is None:
                await self._mark.kiq(each.name)
            else:
                at = datetime.fromtimestamp(each.due, UTC)
                await self._mark.schedule_by_time(self._source, at, each.name)

    def work(self, threads: int) -> None:
        api = import_module("taskiq.api")
        scheduler = import_module("taskiq").TaskiqScheduler(self._broker, [self._source])
        self._loop.start(api.run_receiver_task(self._broker, max_async_tasks=threads, max_prefetch=threads))
        self._loop.start(api.run_scheduler_task(scheduler, interval=SCHEDULE_UPDATE_INTERVAL))

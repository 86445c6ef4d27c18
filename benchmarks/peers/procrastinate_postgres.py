"""Procrastinate with psycopg: woken by NOTIFY, polls every 0.1 s for what falls due, runs coroutines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from itertools import groupby
from typing import Any

from benchmarks.peers.protocol import EventLoop, New, Peer, Place, mark

POLL_S = 0.1


class Procrastinate(Peer):
    def set_up(self, place: Place) -> None:
        procrastinate = import_module("procrastinate")
        self._loop = EventLoop()
        connector = procrastinate.PsycopgConnector(conninfo=place.postgres, min_size=2, max_size=20)
        self._app: Any = procrastinate.App(connector=connector)

        async def marked(name: str) -> None:
            mark(name)

        self._mark = self._app.task(name="mark")(marked)
        self._loop.run(self._open(place))

    async def _open(self, place: Place) -> None:
        await self._app.open_async()
        made = place.folder / "procrastinate"  # two processes share the folder, one makes the tables
        if not made.exists():
            await self._app.schema_manager.apply_schema_async()
            made.touch()

    def schedule(self, new: Sequence[New], batch: int) -> None:
        self._loop.run(self._schedule(new, batch))

    async def _schedule(self, new: Sequence[New], batch: int) -> None:
        for due, group in groupby(new, key=lambda each: each.due):
            at = {} if due is None else {"schedule_at": datetime.fromtimestamp(due, UTC)}
            deferrer, names = self._mark.configure(**at), [{"name": each.name} for each in group]
            for first in range(0, len(names), batch):
                if batch == 1:
                    await deferrer.defer_async(**names[first])
                else:
                    await deferrer.batch_defer_async(*names[first : first + batch])

    def work(self, threads: int) -> None:
        # A backlog that was just stored has no statistics yet: autovacuum would make them within a minute.
        self._loop.run(self._app.connector.execute_query_async("ANALYZE procrastinate_jobs"))
        options = {"concurrency": threads, "fetch_job_polling_interval": POLL_S, "install_signal_handlers": False}
        self._loop.start(self._app.run_worker_async(**options))

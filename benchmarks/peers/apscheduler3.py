"""APScheduler 3: a BackgroundScheduler with the SQLAlchemy job store on SQLite, and a pool of threads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from benchmarks.peers.protocol import New, Peer, Place, mark

THREAD_COUNT = 16


class APScheduler3(Peer):
    def set_up(self, place: Place) -> None:
        sqlalchemy = import_module("sqlalchemy")
        engine = sqlalchemy.create_engine(f"sqlite:///{place.folder}/jobs.db")
        sqlalchemy.event.listen(engine, "connect", _without_disk)
        store = import_module("apscheduler.jobstores.sqlalchemy").SQLAlchemyJobStore(engine=engine)
        pool = import_module("apscheduler.executors.pool").ThreadPoolExecutor(THREAD_COUNT)
        background = import_module("apscheduler.schedulers.background").BackgroundScheduler
        self._scheduler: Any = background(
            jobstores={"default": store},
            executors={"default": pool},
            job_defaults={"misfire_grace_time": None},
            timezone=UTC,
        )
        self._scheduler.start(paused=True)

    def schedule(self, new: Sequence[New], batch: int) -> None:  # noqa: ARG002 - it has no call for several
        for each in new:
            at = datetime.now(UTC) if each.due is None else datetime.fromtimestamp(each.due, UTC)
            self._scheduler.add_job(mark, "date", run_date=at, args=[each.name])

    def work(self, threads: int) -> None:  # noqa: ARG002 - its pool is as large as it was made
        self._scheduler.resume()


def _without_disk(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=OFF")

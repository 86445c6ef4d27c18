"""Duetime as its application builds it: embedded with SQLite, or shared with PostgreSQL and Redis."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module

from duetime.scheduler.handlers import Context, handler
from duetime.scheduler.outcomes import Done, Retry
from duetime.scheduler.request import Request
from duetime.scheduler.store import migrate_store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter
from duetime.server.app import App, Role, build
from duetime.server.runtime.garbage import collect_less
from duetime.server.settings.model import Settings

from benchmarks.peers.protocol import RETRY_DELAY_S, New, Peer, Place, Refused, ask, mark
from benchmarks.peers.provider import CALLS_PER_S, MAX_CALLS_IN_FLIGHT

DRIVERS = ("psycopg", "duetime.scheduler.queue.redis.queue", "duetime.scheduler.queue.redis.pubsub")
POOLS = {
    "slots": {"capacity": MAX_CALLS_IN_FLIGHT},
    "calls": {"kind": "rate", "capacity": CALLS_PER_S, "per": "second", "sliding": True},
}


@handler("mark")
def marked(ctx: Context) -> Done:
    """Note that it began."""
    mark(ctx.title)
    return Done()


@handler("ask", needs={"slots": 1, "calls": 1})
def asked(ctx: Context) -> Done | Retry:
    """Call the provider once."""
    try:
        ask(ctx.title)
    except Refused:
        return Retry("429", after=timedelta(seconds=RETRY_DELAY_S))
    return Done()


class Duetime(Peer):
    """Either way: `_settings` says which."""

    def set_up(self, place: Place) -> None:
        self._place = place
        self._app: App | None = None

    def _settings(self, threads: int) -> Settings:
        """Return the settings of a user who wants nothing to wait for a disk, as on the other side."""
        url = f"sqlite:///{self._place.folder}/duetime.db"
        return Settings(
            database_url=url,
            timezone="UTC",
            threads=threads,
            yield_to_load=False,
            pools=POOLS,
            sqlite_synchronous="OFF",
        )

    def _started(self, threads: int, role: Role) -> None:
        self.close()
        self._app = build(self._settings(threads), handlers=[marked, asked], role=role)
        collect_less()  # as each process of Duetime does that runs tasks
        self._app.start()

    def _scheduling(self) -> App:
        if self._app is None:
            self._app = build(self._settings(1), handlers=[marked, asked])
        return self._app

    def work(self, threads: int) -> None:
        self._started(threads, Role.SERVE)

    def schedule(self, new: Sequence[New], batch: int) -> None:
        scheduler = self._scheduling().scheduler
        for first in range(0, len(new), batch):
            requests = [_request(each) for each in new[first : first + batch]]
            if batch == 1:
                scheduler.submit(requests[0])
            else:
                scheduler.task_creator.create_many(requests)

    def settled(self, count: int) -> bool:
        assert self._app is not None
        return self._app.store.tasks.counts("local", TaskFilter()).get(State.SUCCEEDED, 0) >= count

    def close(self) -> None:
        if self._app is not None:
            self._app.close()
            self._app = None


class SharedDuetime(Duetime):
    def set_up(self, place: Place) -> None:
        super().set_up(place)
        for driver in DRIVERS:  # Duetime loads them when it connects, the peers here
            import_module(driver)
        made = place.folder / "migrated"  # two processes share the folder, one makes the tables
        if not made.exists():
            migrate_store(place.postgres)
            made.touch()

    def _settings(self, threads: int) -> Settings:
        servers = {"database_url": self._place.postgres, "redis_url": self._place.redis}
        return super()._settings(threads).model_copy(update=servers)

    def serve(self) -> None:
        self._started(1, Role.SERVE)

    def work(self, threads: int) -> None:
        self._started(threads, Role.WORK)


def _request(new: New) -> Request:
    when = None if new.due is None else datetime.fromtimestamp(new.due, UTC).isoformat()
    return Request(new.name, when=when, action="ask" if new.asks else "mark")

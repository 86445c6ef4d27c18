"""Opening a database: which kind it is, and that its tables are those of this version."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from duetime.scheduler.store.claims import Claims
from duetime.scheduler.store.database import Database, Postgres, Sqlite
from duetime.scheduler.store.history import History
from duetime.scheduler.store.models import Base
from duetime.scheduler.store.runners import Runners
from duetime.scheduler.store.tasks import Tasks
from duetime.scheduler.store.telling import Deliveries, Inbox
from sqlalchemy import URL, make_url


def utc_now() -> datetime:
    return datetime.now(UTC)


class Store:
    """Everything that Duetime remembers. Safe to use from many threads; several processes may open one database."""

    def __init__(self, database: Database, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._clock = clock
        self.tasks = Tasks(database, clock)
        self.claims = Claims(database, clock)
        self.runners = Runners(database, clock)
        self.history = History(database)
        self.inbox = Inbox(database, clock)
        self.deliveries = Deliveries(database, clock)

    def now(self) -> datetime:
        return self._clock()

    def close(self) -> None:
        self._database.close()


def open_store(
    url: str, *, clock: Callable[[], datetime] = utc_now, synchronous: str = "FULL", migrate: bool = True
) -> Store:
    database = connect(url, synchronous=synchronous)
    if migrate:
        database.write(Base.metadata.create_all)
    return Store(database, clock)


def connect(url: str, *, synchronous: str = "FULL") -> Database:
    parsed = _parsed(url)
    if parsed.get_backend_name() == "sqlite":
        return Sqlite(parsed, synchronous=synchronous)
    return Postgres(parsed)


def _parsed(url: str) -> URL:
    return make_url(url)

"""The runner: the process that runs tasks now. Each new one raises the epoch; claims of older epochs are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from duetime.scheduler.records import RunnerRecord
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.schema.tables.pools import runner
from sqlalchemy import Connection, insert, select, update

_NEWEST = select(runner.c.epoch)
_CURRENT = select(runner.c.epoch, runner.c.pid, runner.c.endpoint, runner.c.token, runner.c.started_at)


class Runners:
    """The runner of this database."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def take_over(self, *, pid: int, endpoint: str, token: str) -> int:
        """Become the runner; return a new epoch, higher than any before. Runs of older epochs cannot start any more."""

        def work(connection: Connection) -> int:
            values = {"pid": pid, "endpoint": endpoint, "token": token, "started_at": self._now()}
            newest: int | None = connection.execute(_NEWEST.with_for_update()).scalar()
            if newest is None:
                connection.execute(insert(runner).values(id=1, epoch=1, **values))
                return 1
            connection.execute(update(runner).values(epoch=newest + 1, **values))
            return newest + 1

        return self._database.write(work)

    def current(self) -> RunnerRecord | None:
        """Return the newest runner, whether or not its process still lives; None before the first."""
        row = self._database.look(lambda connection: connection.execute(_CURRENT).first())
        return None if row is None else RunnerRecord(*row)

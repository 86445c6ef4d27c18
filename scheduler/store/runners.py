"""The runner: which process runs tasks now. Each new one raises the epoch, and claims of older epochs are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from duetime.scheduler.errors import RunnerReplaced
from duetime.scheduler.store.database import Database
from duetime.scheduler.store.models import runner
from duetime.scheduler.store.values import Runner
from sqlalchemy import Connection, insert, select, update

_NEWEST = select(runner.c.epoch)
_NEWEST_SHARED = _NEWEST.with_for_update(read=True)
_CURRENT = select(runner.c.epoch, runner.c.pid, runner.c.endpoint, runner.c.token, runner.c.started_at)


def check_epoch(connection: Connection, epoch: int | None) -> None:
    """Raise `RunnerReplaced` unless `epoch` is the newest, and stays it until the commit; None needs no runner."""
    if epoch is None:
        return
    newest = connection.execute(_NEWEST_SHARED).scalar() or 0
    if newest != epoch:
        raise RunnerReplaced(epoch, newest)


class Runners:
    """Who runs the tasks of this database."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def take_over(self, *, pid: int, endpoint: str, token: str) -> int:
        """Become the runner: return a new epoch, higher than any before. Older epochs can start nothing any more."""

        def work(connection: Connection) -> int:
            values = {"pid": pid, "endpoint": endpoint, "token": token, "started_at": self._now()}
            newest: int | None = connection.execute(_NEWEST.with_for_update()).scalar()
            if newest is None:
                connection.execute(insert(runner).values(id=1, epoch=1, **values))
                return 1
            connection.execute(update(runner).values(epoch=newest + 1, **values))
            return newest + 1

        return self._database.write(work)

    def current(self) -> Runner | None:
        """Return the newest runner, whether or not its process still lives; None before the first."""
        row = self._database.read(lambda connection: connection.execute(_CURRENT).first())
        return None if row is None else Runner(*row)

"""Due runs become ready together, or one by one where that fails; the waits of others begin."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import row_by_row
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.row_by_row import Blame, Only
from duetime.scheduler.store.dispatch import missed_runs
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.sql import commit_check
from duetime.scheduler.store.statements import start
from duetime.scheduler.store.statements.series import due_waits
from sqlalchemy import Connection

_NOT_READY: Final = Blame("run", "it is due, but cannot become ready", runs)
_NOT_WAITING: Final = Blame("run", "it is due, but cannot wait for its event", runs)

MadeReady = tuple[list[ReadyRun], missed_runs.Held]
"""Runs that are ready now, and those that wait for something first."""


class DueRuns:
    """Makes due runs ready. A run that cannot be written holds up no other, and is left alone for a while."""

    def __init__(self, database: Database, now: Callable[[], datetime], move: start.Move, commits: Commits) -> None:
        self._database = database
        self._now = now
        self._move = move
        self._commits = commits
        self._urgent = start.UrgentSearch()

    def make_ready(self, limit: int, epoch: int | None, ahead: timedelta) -> Iterator[MadeReady]:
        """Yield after each commit the runs that are ready by it."""

        def work(only: Only) -> MadeReady:
            once = partial(self._once, limit=limit, epoch=epoch, ahead=ahead, only=only)
            return self._database.write(once, durable=False, stored=_is_stored)

        now = self._now()
        due = partial(start.due, limit=limit, now=now, until=now + ahead)
        return row_by_row.each(self._database, work, due, _NOT_READY)

    def _once(self, connection: Connection, limit: int, epoch: int | None, ahead: timedelta, only: Only) -> MadeReady:
        now = self._now()
        due = start.lock_due(connection, limit, epoch, now, now + ahead, urgent=self._urgent, only=only)
        left, held = missed_runs.without(connection, due, now)
        return start.make_ready(connection, left, now, move=self._move), held

    def begin_waits(self, run_ids: Sequence[str], ahead: timedelta) -> None:
        """Let due runs wait for their events."""

        def work(only: Only) -> None:
            wanted = run_ids if only is None else list(only)
            self._commits.write(lambda each: due_waits.begin(each, wanted, now := self._now(), now + ahead))

        if run_ids:
            list(row_by_row.each(self._database, work, lambda _: run_ids, _NOT_WAITING))


def _is_stored(connection: Connection, made: MadeReady) -> bool:
    ready, _ = made
    return commit_check.made_ready(connection, ready)

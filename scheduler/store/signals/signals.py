"""Signals of a tenant: sent, and waited for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Final

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import row_by_row
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.row_by_row import Blame, Only
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.signals import send_signal, wait_timeouts
from duetime.scheduler.store.sql.chunks import chunks
from duetime.scheduler.store.statements.signals import kept_waits
from duetime.scheduler.waits.signal import KeptWait, ReceivedSignal, SentSignal
from sqlalchemy import Connection

_TOO_LATE: Final = Blame("the wait of", "it is too late for its event, but cannot end", signal_waits)

log = logging.getLogger(__name__)


class Signals:
    """The signals. The listener of `Dependencies` is notified of what continues by one, after the commit."""

    def __init__(self, database: Database, now: Callable[[], datetime], commits: Commits) -> None:
        self._database = database
        self._now = now
        self._commits = commits

    def send(self, tenant: str, signal: ReceivedSignal, *, actor: str) -> SentSignal:
        """Store a signal, and end all waits for it, in one transaction; one whose id is known does nothing.

        Many waiters continue in several transactions. Where one cannot be stored, the repair of dependencies continues.
        """
        answer, left = self._commits.write(
            lambda connection: send_signal.send(connection, tenant, signal, actor=actor, clock=self._now)
        )
        try:
            for page in chunks(left, send_signal.MAX_WAITERS_LET_GO):
                answer = self._commits.write(
                    partial(send_signal.let_go, tenant=tenant, page=page, answer=answer, now=self._now())
                )
        except StoreUnavailable as error:
            log.warning("%d tasks that waited for event %r will continue later: %s", len(left), signal.name, error)
        return answer

    def open_of(self, tenant: str, waiter_ids: Sequence[str]) -> Mapping[str, KeptWait]:
        """Return the open waits of those of these tasks and runs that the tenant has."""
        if not waiter_ids:
            return {}
        return self._database.look(lambda connection: kept_waits.open_of(connection, tenant, waiter_ids))

    def wait_of_run(self, tenant: str, task_id: str, run_id: str) -> KeptWait | None:
        """Return what a run waits or has waited for last: what its handler asked for, else what its task did."""

        def work(connection: Connection) -> KeptWait | None:
            own = kept_waits.of_tenant(connection, tenant, task_id, run_id)
            return own or kept_waits.of_tenant(connection, tenant, task_id, task_id)

        return self._database.read(work)

    def end_late(self, *, limit: int) -> list[str]:
        """End at most `limit` waits that no signal has ended in time; return the tasks that waited."""

        def end(only: Only) -> list[str]:
            return self._commits.write(lambda connection: wait_timeouts.end_late(connection, only, limit, self._now()))

        late = partial(wait_timeouts.late, limit=limit, now=self._now())
        return row_by_row.collect(self._database, end, late, _TOO_LATE)

    def forget(self, *, limit: int = 500) -> int:
        """Delete at most `limit` signals that are too old to be looked back to; return how many."""
        return self._database.write(
            lambda connection: send_signal.forget_old(connection, limit, self._now()), durable=False
        )

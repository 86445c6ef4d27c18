"""Dependencies: what tasks come after, and what goes on when that ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

from duetime.scheduler.chain.dependency import Upstream
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.statements import dependants, links
from duetime.scheduler.task import Json
from sqlalchemy import Connection

T = TypeVar("T")


def _nobody(_task_ids: Sequence[str]) -> None:
    return None


class Dependencies:
    """Tasks that come after others. `listen` names who is told of tasks whose runs go on, after each commit."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now
        self._told: Callable[[Sequence[str]], None] = _nobody

    def listen(self, told: Callable[[Sequence[str]], None]) -> None:
        """Call `told` from now on, in place of an earlier one; the tasks' runs are due, or will be at their time."""
        self._told = told

    def known(self, tenant: str, task_ids: Sequence[str]) -> Mapping[str, Upstream]:
        """Return those of these tasks that the tenant has."""
        return self._database.read(lambda connection: links.known(connection, tenant, task_ids))

    def upstreams(self, tenant: str, task_id: str) -> Sequence[Upstream]:
        """Return what a task comes after, the oldest first."""
        return self._database.read(lambda connection: links.upstreams(connection, tenant, task_id))

    def results(self, tenant: str, task_id: str) -> Mapping[str, Json]:
        """Return the last results of what a task comes after, by task."""
        return self._database.read(lambda connection: links.results(connection, tenant, task_id))

    def repair(self, *, limit: int) -> int:
        """Go on after ends of at most `limit` tasks that were not followed up; return how many there were."""
        return self.ending(lambda connection: dependants.repair(connection, limit, self._now()))

    def ending(self, work: Callable[[Connection], T], *, doubtful: bool = False) -> T:
        """Run `work`, which ends runs, in one transaction, and tell of the tasks that go on by it."""
        freed: list[str] = []

        def once(connection: Connection) -> T:
            freed.clear()  # it may run twice
            kept = connection.info  # asked for once: a connection that is lost meanwhile has none
            kept[dependants.FREED] = freed
            try:
                return work(connection)
            finally:
                del kept[dependants.FREED]

        result = self._database.write(once, doubtful=doubtful)
        if freed:
            self._told(freed)
        return result

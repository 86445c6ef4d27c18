"""Dependencies between tasks: queries, and the repair of ends that nothing followed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

from duetime.scheduler.chain.dependency import RunWaits, Upstream
from duetime.scheduler.ids import is_chain_id
from duetime.scheduler.run_records import Failure, Waiter
from duetime.scheduler.store.chains import unfollowed_ends
from duetime.scheduler.store.chains.commits import Commits
from duetime.scheduler.store.database import row_by_row
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.row_by_row import Blame, Only
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.statements import read, waiters
from duetime.scheduler.store.statements.endings import follow_ups
from duetime.scheduler.store.statements.graph import upstreams
from duetime.scheduler.task import Json, Run
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection

Find = Callable[[Connection, int], Collection[str]]
GoOn = Callable[[Connection, Collection[str], int, datetime], int]
_NOT_FOLLOWED: Final = Blame("task", "cannot follow up its end", dependencies)
_NOT_FREED: Final = Blame("task", "it waits for nothing, but cannot go on", runs)


class Dependencies:
    """Reads what tasks come after, and what waits for them; follows up ends that nothing has followed."""

    def __init__(self, database: Database, now: Callable[[], datetime], commits: Commits) -> None:
        self._database = database
        self._now = now
        self._commits = commits

    def known(self, tenant: str, task_ids: Sequence[str]) -> Mapping[str, Upstream]:
        """Return those of these tasks that the tenant has, and the steps of its chains among them."""
        ask = self._database.read if any(map(is_chain_id, task_ids)) else self._database.look
        return ask(lambda connection: upstreams.known(connection, tenant, task_ids))

    def upstreams(self, tenant: str, task_id: str) -> Sequence[Upstream]:
        """Return the upstreams of a task, the oldest first."""
        return self._database.look(lambda connection: upstreams.upstreams(connection, tenant, task_id))

    def of_waiting(self, tenant: str, run_id: str, waiter_id: str) -> RunWaits:
        """Return what a waiting run waits for."""
        return self._database.look(lambda connection: upstreams.of_waiting(connection, tenant, run_id, waiter_id))

    def results(self, tenant: str, task_id: str, run: Run | None = None) -> Mapping[str, Json]:
        """Return the last results of a task's upstreams, by task id and by step name; as this `run` gets them."""
        return self._database.read(lambda connection: upstreams.results(connection, tenant, task_id, run))

    def failure(self, tenant: str, task_id: str) -> Failure | None:
        """Return the failure that made a task, None for any other task."""
        return self._database.look(lambda connection: follow_ups.failure(connection, tenant, task_id))

    def made_by_failures(self, tenant: str, task_id: str) -> Sequence[TaskRecord]:
        """Return the newest tasks that failures of a task have made."""

        def work(connection: Connection) -> Sequence[TaskRecord]:
            made = follow_ups.made_by(connection, tenant, task_id)
            found = read.records(connection, made)
            return [found[each] for each in made if each in found]

        return self._database.read(work)

    def waiters(self, tenant: str, task_id: str) -> frozenset[Waiter]:
        """Return the tasks that wait for one, directly or behind others, each pair that waits."""
        return self._database.read(lambda connection: waiters.of_task(connection, tenant, task_id, self._now()))

    def begun_since(self, tenant: str, task_id: str, since: datetime) -> Sequence[str]:
        """Return the tasks that still come after an open one, but whose runs began since then."""
        return self._database.look(lambda connection: waiters.begun_since(connection, tenant, task_id, since))

    def repair(self, *, limit: int) -> int:
        """Follow up ends of at most `limit` tasks for which others still wait; return how many there were."""
        ends = self._follow_up(unfollowed_ends.ended, unfollowed_ends.follow, limit, _NOT_FOLLOWED)
        return ends + self._follow_up(unfollowed_ends.free, unfollowed_ends.let_go, limit, _NOT_FREED)

    def _follow_up(self, find: Find, go_on: GoOn, limit: int, blame: Blame) -> int:
        """Look for such ends in a read transaction, and take the write lock only where there are any."""
        found = list(self._database.look(lambda connection: find(connection, limit)))

        def work(only: Only) -> int:
            return self._commits.write(lambda connection: go_on(connection, only or found, limit, self._now()))

        return sum(row_by_row.each(self._database, work, lambda _: found, blame)) if found else 0

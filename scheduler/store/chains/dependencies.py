"""Dependencies between tasks, and the transactions whose ends let waiting tasks continue."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeVar

from duetime.scheduler.chain.dependency import Upstream
from duetime.scheduler.run_records import EndedRun, Failure, Waiter
from duetime.scheduler.store.chains import unfollowed_ends
from duetime.scheduler.store.database import row_by_row
from duetime.scheduler.store.database.database import Database, Stored
from duetime.scheduler.store.database.row_by_row import Blame, Only
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.sql.commit_notes import CommitNotes, collected
from duetime.scheduler.store.statements import read, waiters
from duetime.scheduler.store.statements.endings import follow_ups
from duetime.scheduler.store.statements.graph import upstreams
from duetime.scheduler.task import Json, Run
from duetime.scheduler.views import TaskRecord
from sqlalchemy import Connection

T = TypeVar("T")
Find = Callable[[Connection, int], Collection[str]]
GoOn = Callable[[Connection, Collection[str], int, datetime], int]
_NOT_FOLLOWED: Final = Blame("task", "cannot follow up its end", dependencies)
_NOT_FREED: Final = Blame("task", "it waits for nothing, but cannot go on", runs)


class _RolledBack(Exception):
    """Ends the transaction of a rehearsal."""


def _nobody(_news: Sequence[object]) -> None:
    return None


class Dependencies:
    """Dependencies of tasks. Listeners are called after each commit that frees runs, or changes what waits for them."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now
        self._on_freed: Callable[[Sequence[str]], None] = _nobody
        self._rescore: Callable[[Sequence[str]], None] = _nobody
        self._on_ended: Callable[[Sequence[EndedRun]], None] = _nobody

    def listen(self, on_freed: Callable[[Sequence[str]], None]) -> None:
        """Call `on_freed` with tasks whose waiting runs continue. It replaces the listener before it."""
        self._on_freed = on_freed

    def notify(self, task_ids: Sequence[str]) -> None:
        """Report tasks to the listener of `listen`, as if their runs went on: theirs wait from now on."""
        if task_ids:
            self._on_freed(task_ids)

    def listen_for_urgency(self, rescore: Callable[[Sequence[str]], None]) -> None:
        """Call `rescore` with ready runs whose waiting tasks have changed. It replaces the listener before it."""
        self._rescore = rescore

    def listen_for_ends(self, on_ended: Callable[[Sequence[EndedRun]], None]) -> None:
        """Call `on_ended` with runs that ended by no attempt. It replaces the listener before it."""
        self._on_ended = on_ended

    def known(self, tenant: str, task_ids: Sequence[str]) -> Mapping[str, Upstream]:
        """Return those of these tasks that the tenant has, and the steps of its chains among them."""
        return self._database.look(lambda connection: upstreams.known(connection, tenant, task_ids))

    def upstreams(self, tenant: str, task_id: str) -> Sequence[Upstream]:
        """Return the upstreams of a task, the oldest first."""
        return self._database.look(lambda connection: upstreams.upstreams(connection, tenant, task_id))

    def results(self, tenant: str, task_id: str, run: Run | None = None) -> Mapping[str, Json]:
        """Return the last results of a task's upstreams, by task id and by step name; as this `run` gets them."""
        return self._database.read(lambda connection: upstreams.results(connection, tenant, task_id, run))

    def failure(self, tenant: str, task_id: str) -> Failure | None:
        """Return the failure that made a task, None for any other task."""
        return self._database.read(lambda connection: follow_ups.failure(connection, tenant, task_id))

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

    def repair(self, *, limit: int) -> int:
        """Follow up ends of at most `limit` tasks for which others still wait; return how many there were."""
        ends = self._follow_up(unfollowed_ends.ended, unfollowed_ends.follow, limit, _NOT_FOLLOWED)
        return ends + self._follow_up(unfollowed_ends.free, unfollowed_ends.let_go, limit, _NOT_FREED)

    def _follow_up(self, find: Find, go_on: GoOn, limit: int, blame: Blame) -> int:
        """Look for such ends in a read transaction, and take the write lock only where there are any."""
        found = list(self._database.read(lambda connection: find(connection, limit)))

        def work(only: Only) -> int:
            return self.ending(lambda connection: go_on(connection, only or found, limit, self._now()))

        return sum(row_by_row.each(self._database, work, lambda _: found, blame)) if found else 0

    def rehearsal(self, work: Callable[[Connection], T]) -> T:
        """Run `work` as `ending` does and return its result; then roll back and call no listener."""
        found: list[T] = []

        def once(connection: Connection) -> None:
            found[:] = [work(connection)]
            raise _RolledBack

        with suppress(_RolledBack):
            self.ending(once)
        return found[0]

    def ending(
        self, work: Callable[[Connection], T], *, may_be_stored: bool = False, stored: Stored[T] | None = None
    ) -> T:
        """Run `work`, which ends runs or changes waits, in one transaction; after the commit, call the listeners."""
        notes = CommitNotes()

        def once(connection: Connection) -> T:
            nonlocal notes  # those of the last try
            with collected(connection) as notes:
                return work(connection)

        result = self._database.write(once, may_be_stored=may_be_stored, stored=stored)
        if notes.freed:
            self._on_freed(notes.freed)
        if notes.rescored:
            self._rescore(notes.rescored)
        if notes.ended:
            self._on_ended(notes.ended)
        return result

"""The transactions whose ends let waiting tasks continue, and the listeners that are called after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from duetime.scheduler.run_records import EndedRun
from duetime.scheduler.store.database.database import Database, Stored
from duetime.scheduler.store.sql.commit_notes import CommitNotes, collected
from sqlalchemy import Connection

T = TypeVar("T")


class _RolledBack(Exception):
    """Ends the transaction of a rehearsal."""


FreedListener = Callable[[Sequence[str]], None]
"""Gets the ids of tasks whose waiting runs continue."""


def _nobody(_news: Sequence[object]) -> None:
    return None


class Commits:
    """Transactions. Listeners are called after each commit that frees runs, or changes what waits for them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._on_freed: FreedListener = _nobody
        self._rescore: Callable[[Sequence[str]], None] = _nobody
        self._on_ended: Callable[[Sequence[EndedRun]], None] = _nobody

    def listen(self, on_freed: FreedListener) -> FreedListener:
        """Call `on_freed` with tasks whose waiting runs continue. Return the listener before it, which it replaces."""
        before, self._on_freed = self._on_freed, on_freed
        return before

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

    def rehearse(self, work: Callable[[Connection], T]) -> T:
        """Run `work` as `write` does and return its result; then roll back and call no listener."""
        found: list[T] = []

        def once(connection: Connection) -> None:
            found[:] = [work(connection)]
            raise _RolledBack

        with suppress(_RolledBack):
            self.write(once)
        return found[0]

    def write(
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

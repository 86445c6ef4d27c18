"""The transactions whose ends let waiting tasks continue, and the listeners that are called after them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from duetime.scheduler.run_records import EndedRun
from duetime.scheduler.store.database.database import Database, Stored
from duetime.scheduler.store.sql.commit_notes import CommitNotes, collected
from sqlalchemy import Connection

T = TypeVar("T")


class _RolledBack(Exception):
    """Ends the transaction of a rehearsal."""


def _nobody(_news: Sequence[object]) -> None:
    return None


@dataclass(frozen=True, slots=True)
class CommitListeners:
    """Listeners, called after each commit that concerns them.

    `freed` gets the ids of tasks whose waiting runs continue, `rescored` ready runs whose waiting tasks have changed,
    `ended` runs that ended by no attempt.
    """

    freed: Callable[[Sequence[str]], None] = _nobody
    rescored: Callable[[Sequence[str]], None] = _nobody
    ended: Callable[[Sequence[EndedRun]], None] = _nobody


class Commits:
    """Transactions. Listeners are called after each commit that frees runs, or changes what waits for them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._listeners = CommitListeners()

    def listen(
        self,
        freed: Callable[[Sequence[str]], None] | None = None,
        *,
        rescored: Callable[[Sequence[str]], None] | None = None,
        ended: Callable[[Sequence[EndedRun]], None] | None = None,
    ) -> Callable[[], None]:
        """Call these instead of the listeners before them, as `CommitListeners` says; return what puts those back."""
        before = self._listeners
        self._listeners = CommitListeners(freed or before.freed, rescored or before.rescored, ended or before.ended)

        def put_back() -> None:
            self._listeners = before

        return put_back

    def notify(self, task_ids: Sequence[str]) -> None:
        """Call the listener of freed runs for tasks whose runs wait from now on: their waits may end by time."""
        if task_ids:
            self._listeners.freed(task_ids)

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
        listeners = self._listeners
        if notes.freed:
            listeners.freed(notes.freed)
        if notes.rescored:
            listeners.rescored(notes.rescored)
        if notes.ended:
            listeners.ended(notes.ended)
        return result

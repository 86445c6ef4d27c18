"""Transactions: the interface that `sqlite.py` and `postgres.py` implement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from duetime.scheduler.store.database.last_write import LastWrite
from duetime.scheduler.store.database.unwritable import UnwritableRows
from sqlalchemy import Connection, Engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

T = TypeVar("T")
Work = Callable[[Connection], T]
Stored = Callable[[Connection, T], bool]

BUSY_TIMEOUT_S = 5
"""The time that a database may be busy, or away, before a call gives up."""


@dataclass(frozen=True, slots=True)
class Tried(Generic[T]):
    """Result of a single statement: without a `result` nothing is known.

    `may_be_stored`: the connection broke, so the statement may be stored, or may yet be.
    """

    result: T | None = None
    may_be_stored: bool = False


class Database(ABC):
    """Runs a piece of work in one transaction, all or nothing."""

    engine: Engine

    @cached_property
    def unwritable(self) -> UnwritableRows:
        """The rows that this process has failed to write."""
        return UnwritableRows()

    @cached_property
    def last_write(self) -> LastWrite:
        return LastWrite()

    def check_writable(self) -> None:
        """Raise StoreUnwritable while writes fail because the disk is full or read-only. Writes nothing."""
        self.last_write.check()

    def file(self) -> str:
        """Return the file of the database, as the operating system names it: a copy has another; empty without one."""
        return ""

    def disk_used(self) -> float | None:
        """Return the used share, 0 to 1, of the volume that holds the file; None where no file is known."""
        return None

    @abstractmethod
    def read(self, work: Work[T]) -> T:
        """Run `work` on one consistent snapshot; never waits for a writer."""

    def look(self, work: Work[T]) -> T:
        """Run `work`, a single read statement, which needs no transaction."""
        return self.read(work)

    def attempt(self, work: Work[T]) -> Tried[T]:  # noqa: ARG002 - where a transaction is no round trip
        """Run `work`, a single statement in a transaction of its own, where that is faster.

        It must tolerate commits that happen during its lock waits. The caller does the rest with `write`.
        """
        return Tried()

    @abstractmethod
    def write(
        self, work: Work[T], *, durable: bool = True, stored: Stored[T] | None = None, may_be_stored: bool = False
    ) -> T:
        """Run `work` and commit; `work` must be pure, because it may run twice after a failure that stored nothing.

        A write that is not `durable` survives the crash of every process, but perhaps no power cut, and then only with
        all later writes. Use it for steps that are simply repeated.

        `stored` checks whether the result of `work` was committed, in a new transaction after the connection broke
        during the commit. Without it, or when it returns False, this raises `StoreUnavailable`. With
        `may_be_stored` an earlier try may be, and `work` finds out. It runs until the database replies, or has been
        away for the busy timeout.
        """

    def migrate(self, work: Work[None]) -> None:
        """Run `work`, which changes tables, in one transaction."""
        self.write(work)

    @abstractmethod
    def alone(self, lock_id: int, name: str) -> AbstractContextManager[bool]:
        """Hold a lock between processes during the block; False when another one has it. Never waits."""

    def close(self) -> None:
        dispose(self.engine)


def dispose(engine: Engine) -> None:
    """Close the connections of an engine: idle ones now, those in use as soon as their threads return them."""
    event.listen(engine.pool, "checkin", _close_returned)
    engine.dispose()


def _close_returned(_connection: DBAPIConnection | None, entry: ConnectionPoolEntry) -> None:
    entry.close()

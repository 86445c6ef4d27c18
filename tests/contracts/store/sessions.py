"""Sessions of PostgreSQL that one test leaves to the next.

A test of the store opens two. To learn of all tables and plan its statements takes a new session longer than most tests
take: half of their processor time.
"""

from __future__ import annotations

import select
from collections import defaultdict
from typing import Any, ClassVar

import psycopg
from psycopg._preparing import PrepareManager
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

AS_NEW = b"RESET ALL; SELECT pg_advisory_unlock_all(); UNLISTEN *"


PLAIN_TYPES = (bool, int, str, tuple)
"""Types of what an engine learns of its server."""


class Plans(PrepareManager):
    """Statements that stay prepared after a rollback, with which each new engine begins: no test changes a table."""

    prepared_max = 1_000

    def clear(self) -> bool:
        return False


class Session(psycopg.Connection[Any]):
    """A connection whose `close` leaves its session to whoever connects in the same way next."""

    idle: ClassVar[defaultdict[str, list[Session]]] = defaultdict(list)
    """By how they connected."""

    how = ""

    def close(self) -> None:
        if self in self.idle[self.how]:
            return  # it was closed already
        if self._is_idle() and self.pgconn.exec_(AS_NEW).status == psycopg.pq.ExecStatus.COMMAND_OK:
            self.idle[self.how].append(self)
        else:
            super().close()

    def _is_idle(self) -> bool:
        return not self.closed and self.info.transaction_status == psycopg.pq.TransactionStatus.IDLE

    def end(self) -> None:
        """Close it for good."""
        super().close()

    @property
    def is_usable(self) -> bool:
        """Whether the server has said nothing since: it says farewell when it ends a session."""
        heard = select.poll()
        heard.register(self.pgconn.socket, select.POLLIN)
        return not heard.poll(0)


def share(database: str) -> None:
    """Let all stores that open a database take their sessions from those that others closed."""
    connected = PGDialect_psycopg.connect
    initialized: Any = PGDialect_psycopg.initialize  # it has no types
    known: dict[str, Any] = {}

    def initialize(dialect: PGDialect_psycopg, connection: Any) -> None:
        """Ask the server of its version and the like once: all engines have the same one."""
        if known and isinstance(connection.connection.driver_connection, Session):
            vars(dialect).update(known)
        else:
            before = dict(vars(dialect))
            initialized(dialect, connection)
            found = {name: value for name, value in vars(dialect).items() if before.get(name, before) is not value}
            known.update((name, value) for name, value in found.items() if isinstance(value, PLAIN_TYPES))

    def connect(dialect: PGDialect_psycopg, *args: Any, **options: Any) -> Any:
        return session(**options) if options.get("dbname") == database else connected(dialect, *args, **options)

    PGDialect_psycopg.initialize = initialize  # type: ignore[method-assign]  # as below
    PGDialect_psycopg.connect = connect  # type: ignore[method-assign, assignment]  # stores make their engines themselves


def session(**options: Any) -> Session:
    """Connect, or take a session that was closed."""
    how = repr(sorted((name, value) for name, value in options.items() if name != "context"))  # all engines' is alike
    while Session.idle[how]:
        found = Session.idle[how].pop()
        if found.is_usable:
            return found
        found.end()
    made = Session.connect(**options)
    made.how, made._prepared = how, Plans()
    return made


def end() -> None:
    """End all that nobody uses."""
    for idle in Session.idle.values():
        while idle:
            idle.pop().end()

"""Turns: work that only one process of an installation does at a time, whichever takes the turn first."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.alerts import turns
from sqlalchemy import Connection, update


class ProcessTurns:
    """The next turn of each work, by its name."""

    def __init__(self, database: Database, now: Callable[[], datetime]) -> None:
        self._database = database
        self._now = now

    def take(self, name: str, lease: timedelta, *, first_at: datetime | None = None) -> bool:
        """Take the turn of a work if it is due; False when it is not, or another process has it.

        Unless `plan` follows, the next turn is after the lease. Of a new work the first turn is now, or at `first_at`.
        """
        now = self._now()

        def work(connection: Connection) -> bool:
            due = update(turns).where(turns.c.name == name, turns.c.next_at <= now).values(next_at=now + lease)
            if connection.execute(due).rowcount:
                return True
            new = dialect_of(connection).insert(turns).on_conflict_do_nothing(index_elements=["name"])
            values = {"name": name, "next_at": first_at or now + lease}
            made = connection.execute(new.returning(turns.c.name), values).first()
            return made is not None and first_at is None

        return self._database.write(work)

    def plan(self, name: str, next_at: datetime) -> None:
        """Set the time of the next turn, after the work of this one is done."""
        statement = update(turns).where(turns.c.name == name).values(next_at=next_at)
        self._database.write(lambda connection: connection.execute(statement))

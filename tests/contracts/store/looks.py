"""Looks of PostgreSQL, each of which may execute one statement: a second one would see another moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from duetime.scheduler.store.database import unreadable
from duetime.scheduler.store.database.postgres import Postgres
from sqlalchemy import Connection, Select, event

AGAIN = "read again, since a row is damaged"


def watch() -> None:
    """Fail each look of this process from now on that executes a further statement, except for damaged rows."""
    looked, leniently = Postgres.look, unreadable._leniently

    def look(database: Postgres, work: Callable[[Connection], Any]) -> Any:
        return looked(database, lambda connection: _alone(connection, work))

    def noted(connection: Connection, statement: Select[Any], parameters: Mapping[str, Any]) -> list[Any]:
        connection.info[AGAIN] = True
        return leniently(connection, statement, parameters)

    Postgres.look = look  # type: ignore[method-assign, assignment]  # for all tests of a process
    unreadable._leniently = noted


def _alone(connection: Connection, work: Callable[[Connection], Any]) -> Any:
    executed: list[str] = []

    def note(_connection: Any, _cursor: Any, sql: str, *_: Any) -> None:
        executed.append(sql)

    connection.info.pop(AGAIN, None)
    event.listen(connection, "before_cursor_execute", note)
    result = work(connection)
    assert len(executed) <= 1 + (AGAIN in connection.info), f"a look is one statement: {executed}"
    return result

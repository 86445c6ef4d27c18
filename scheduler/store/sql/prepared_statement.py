"""PostgreSQL: a statement that stands as SQL, which each connection prepares once and the driver takes as it is.

Its parameters are named in the text and numbered once. All are sent as text, so that the server sees the same types
whichever of them are NULL. That makes one prepared statement, not one for each pattern.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.store.schema.json_types import (
    JsonValue,
    RepeatPolicyType,
    Retrying,
    Strings,
    policy_text,
    repeat_policy_text,
    strings_text,
)
from duetime.scheduler.store.schema.types import Instant, Interval, Truth, Words
from duetime.scheduler.store.schema.values import encode, instant_text, storable
from sqlalchemy import Column, Connection, Table
from sqlalchemy.dialects.postgresql import psycopg

_CURSOR = "duetime_cursor"
"""The cursor of a connection for these statements: a new one would read the types of all parameters again."""

_NAME = re.compile(r"(?<!:):([a-z_]+)")

TextValues = Mapping[str, str | None]
RowTexts = list[str | None]
ToText = Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class PreparedStatement:
    """The text for the driver, and the names of its parameters in their order.

    The driver looks the statement up by its bytes: the same object each time, which is hashed once.
    """

    sql: str
    names: Sequence[str]
    query: bytes

    @classmethod
    def of(cls, text: str, names: Sequence[str] = ()) -> PreparedStatement:
        """Read a text in which a parameter is written `:name`. Their order is that of `names`, else of the text."""
        names = names or list(dict.fromkeys(_NAME.findall(text)))
        sql = _NAME.sub(lambda found: f"${names.index(found[1]) + 1}", text).strip()
        return cls(sql, names, sql.encode())

    def rows(self, connection: Connection, values: TextValues) -> list[tuple[Any, ...]]:
        """Execute it and return its rows; raises what SQLAlchemy would."""
        return self.rows_of(connection, [values[name] for name in self.names])

    def rows_of(self, connection: Connection, parameters: RowTexts) -> list[tuple[Any, ...]]:
        """Execute it with parameters in their order, as `rows`."""
        from psycopg import Error, RawCursor  # noqa: PLC0415 - the driver is optional

        raw: Any = connection.connection.driver_connection
        if not (raw.autocommit or connection.in_transaction()):
            connection.begin()  # else the connection is rolled back when it is put away, and forgets its statements
        cursor = connection.info.get(_CURSOR) or connection.info.setdefault(_CURSOR, RawCursor(raw))
        for observe in connection.dispatch.before_cursor_execute:
            observe(connection, cursor, self.sql, parameters, None, False)
        try:
            found: list[tuple[Any, ...]] = cursor.execute(self.query, parameters, prepare=True).fetchall()
        except Error as error:
            recognise = connection._handle_dbapi_exception  # noqa: SLF001 - there is no public way
            recognise(error, self.sql, None, None, None)
        return found


class TextWriter:
    """Writes the values of these columns, in their order, as text; None is NULL."""

    def __init__(self, table: Table, names: Sequence[str]) -> None:
        self._writers = [_to_text(table.c[name].type) for name in names]

    def written(self, values: Iterable[Any]) -> RowTexts:
        """Return the texts of one row."""
        return [None if value is None else write(value) for value, write in zip(values, self._writers, strict=True)]


_BY_TYPE: Mapping[type, ToText] = {
    Instant: instant_text,
    Interval: lambda value: str(value // MICROSECOND),
    Strings: strings_text,
    Retrying: policy_text,
    RepeatPolicyType: repeat_policy_text,
    Words: storable,
    Truth: lambda value: "t" if value else "f",
}


def _to_text(kind: object) -> ToText:
    known = _BY_TYPE.get(type(kind))
    if known is not None:
        return known
    return encode if isinstance(kind, JsonValue) else str


class RowReader:
    """Reads rows of these columns from what the driver gives, as SQLAlchemy would."""

    def __init__(self, columns: Sequence[Column[Any]]) -> None:
        dialect = psycopg.dialect()  # type: ignore[no-untyped-call]  # SQLAlchemy has no types for it
        kinds = [column.type.dialect_impl(dialect).result_processor(dialect, None) for column in columns]
        self._readers = [(place, read) for place, read in enumerate(kinds) if read is not None]

    def read(self, row: Sequence[Any]) -> list[Any]:
        """Return the values of one row."""
        values = list(row)
        for place, read in self._readers:
            values[place] = read(values[place])
        return values

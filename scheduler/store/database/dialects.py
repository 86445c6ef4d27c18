"""The two databases as statements see them: an engine carries one object that answers in what they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar, Protocol

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    LargeBinary,
    Select,
    Table,
    Text,
    TextClause,
    cast,
    extract,
    func,
    literal_column,
    select,
    text,
    type_coerce,
)
from sqlalchemy.dialects import postgresql, sqlite

DIALECT = "duetime_dialect"
"""The execution option that holds the `StoreDialect` of an engine."""

Upsert = postgresql.Insert | sqlite.Insert


class LockTaken(Exception):
    """Another transaction has a lock for which this one may not wait: it begins again behind that lock."""

    def __init__(self, lock_id: int) -> None:
        super().__init__(lock_id)
        self.lock_id = lock_id


class StoreDialect(Protocol):
    """Answers for one database."""

    has_arrays: ClassVar[bool]
    """Whether one parameter can be a list."""

    has_trigram_indexes: ClassVar[bool]
    """Whether an index of trigrams serves LIKE; SQLite has an index of texts apart from its tables."""

    writes_rows_at_once: ClassVar[bool]
    """Whether a batch is one statement, of which every row sees the tables as they were before it."""

    merges_ranges: ClassVar[bool]
    """Whether ranges of an index that UNION ALL puts together are merged in their order, as far as rows are wanted."""

    has_one_writer: ClassVar[bool]
    """Whether a write transaction makes all others wait, and not those alone that write the same rows."""

    ids_follow_commits: ClassVar[bool]
    """Whether whoever sees an id sees all smaller ones: true with one writer at a time."""

    def insert(self, table: Table) -> Upsert:
        """Return an INSERT that can say what happens ON CONFLICT."""

    def lock_rows(self, connection: Connection, found: Select[Any], values: Mapping[str, Any]) -> None:
        """Lock the rows that the statement finds until the end of the transaction."""

    def wait_for_lock(self, connection: Connection, lock_id: int, *, shared: bool = False) -> None:
        """Wait until no other transaction has this lock, and have it until the end of this one.

        Any number of transactions may have it `shared`, as long as none has it alone.
        """

    def share_lock(self, connection: Connection, lock_id: int) -> None:
        """Share this lock although rows are locked already. Raises `LockTaken`: the transaction begins again.

        Another one that has the lock alone may wait for these rows, so that this one must not wait for the lock.
        """

    def has_lock(self, connection: Connection, lock_id: int) -> bool:
        """Take this lock until the end of the transaction; False when another transaction has it."""

    def read_alone(self, connection: Connection) -> None:
        """Start no further processes for the reads of this transaction, where a planner would: few rows are wanted."""

    def last_event_id(self) -> TextClause:
        """Return the statement for the last number that an event has got, though it may be deleted."""

    def undecoded(self, connection: Connection) -> AbstractContextManager[None]:
        """Let the driver return text that it cannot decode as bytes, instead of failing."""

    def microseconds(self, start: ColumnElement[Any], end: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the time between two instants as a number."""

    def minutes(self, at: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return the whole minutes from 1970 to an instant."""

    def since_1970(self, at: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return an instant as microseconds since 1970."""

    def json_bytes(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        """Return how many bytes a JSON value has as text."""


class SqliteDialect:
    """A file with one writer at a time: a write transaction is the lock of everything."""

    has_arrays = False
    has_trigram_indexes = False
    writes_rows_at_once = False
    merges_ranges = True
    has_one_writer = True
    ids_follow_commits = True

    def insert(self, table: Table) -> Upsert:
        return sqlite.insert(table)

    def lock_rows(self, connection: Connection, found: Select[Any], values: Mapping[str, Any]) -> None:
        """Do nothing."""

    def wait_for_lock(self, connection: Connection, lock_id: int, *, shared: bool = False) -> None:
        """Do nothing."""

    def share_lock(self, connection: Connection, lock_id: int) -> None:
        """Do nothing."""

    def has_lock(self, connection: Connection, lock_id: int) -> bool:  # noqa: ARG002 - as the protocol has it
        return True

    def read_alone(self, connection: Connection) -> None:
        """Do nothing."""

    def last_event_id(self) -> TextClause:
        return text("SELECT seq FROM sqlite_sequence WHERE name = 'events'")

    @contextmanager
    def undecoded(self, connection: Connection) -> Iterator[None]:
        raw: Any = connection.connection.driver_connection
        raw.text_factory = _text_or_bytes
        try:
            yield
        finally:
            raw.text_factory = str

    def microseconds(self, start: ColumnElement[Any], end: ColumnElement[Any]) -> ColumnElement[Any]:
        return type_coerce(end, BigInteger()) - type_coerce(start, BigInteger())

    def minutes(self, at: ColumnElement[Any]) -> ColumnElement[Any]:
        return type_coerce(at, BigInteger()).op("/", return_type=BigInteger())(literal_column("60000000"))

    def since_1970(self, at: ColumnElement[Any]) -> ColumnElement[Any]:
        return type_coerce(at, BigInteger())

    def json_bytes(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.length(cast(value, LargeBinary()))


class PostgresDialect:
    """A server with many writers."""

    has_arrays = True
    has_trigram_indexes = True
    writes_rows_at_once = True
    merges_ranges = False
    has_one_writer = False
    ids_follow_commits = False

    def insert(self, table: Table) -> Upsert:
        return postgresql.insert(table)

    def lock_rows(self, connection: Connection, found: Select[Any], values: Mapping[str, Any]) -> None:
        connection.execute(found, values)

    def wait_for_lock(self, connection: Connection, lock_id: int, *, shared: bool = False) -> None:
        lock = func.pg_advisory_xact_lock_shared if shared else func.pg_advisory_xact_lock
        connection.execute(select(lock(lock_id)))

    def share_lock(self, connection: Connection, lock_id: int) -> None:
        if not connection.execute(select(func.pg_try_advisory_xact_lock_shared(lock_id))).scalar_one():
            raise LockTaken(lock_id)

    def has_lock(self, connection: Connection, lock_id: int) -> bool:
        return bool(connection.execute(select(func.pg_try_advisory_xact_lock(lock_id))).scalar())

    def read_alone(self, connection: Connection) -> None:
        connection.execute(_READ_ALONE)

    def last_event_id(self) -> TextClause:
        return text("SELECT last_value FROM events_id_seq")

    def undecoded(self, connection: Connection) -> AbstractContextManager[None]:  # noqa: ARG002 - its text is decodable
        return nullcontext()

    def microseconds(self, start: ColumnElement[Any], end: ColumnElement[Any]) -> ColumnElement[Any]:
        return cast(_epoch(type_coerce(end, _TIMESTAMP) - type_coerce(start, _TIMESTAMP)) * 1_000_000, BigInteger())

    def minutes(self, at: ColumnElement[Any]) -> ColumnElement[Any]:
        return cast(func.floor(_epoch(type_coerce(at, _TIMESTAMP)) / 60), BigInteger())

    def since_1970(self, at: ColumnElement[Any]) -> ColumnElement[Any]:
        return cast(_epoch(type_coerce(at, _TIMESTAMP)) * 1_000_000, BigInteger())

    def json_bytes(self, value: ColumnElement[Any]) -> ColumnElement[Any]:
        return func.octet_length(cast(value, Text()))


def _epoch(of: ColumnElement[Any]) -> ColumnElement[Any]:
    return extract("epoch", of)


_READ_ALONE = text("SET LOCAL max_parallel_workers_per_gather = 0")
_TIMESTAMP = postgresql.TIMESTAMP(timezone=True)
SQLITE, POSTGRES = SqliteDialect(), PostgresDialect()


def dialect_of(connection: Connection | Engine) -> StoreDialect:
    found: StoreDialect = connection.get_execution_options()[DIALECT]
    return found


def _text_or_bytes(stored: bytes) -> str | bytes:
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored

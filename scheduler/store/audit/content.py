"""Reads rows for the chain: their values as they are stored, in a form that both databases share.

Column types would refuse a damaged value, which is just what a verification has to find; and they cost more time than
the digest itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from duetime.scheduler.audit.chain import SealedRow, Source, digest
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.database.unreadable import is_damage
from duetime.scheduler.store.schema.values import from_microseconds
from duetime.scheduler.store.statements.event_log import OLDEST_OPEN
from sqlalchemy import Connection, TextClause, bindparam, text
from sqlalchemy.exc import DBAPIError

_COLUMNS = {
    Source.EVENT: (
        *("id", "tenant", "task_id", "run_id", "seq", "at", "kind", "actor", "reason", "from_state", "to_state"),
        *("attempt", "before", "after", "revision", "via"),
    ),
    Source.ENTRY: (*("id", "tenant", "at", "kind", "actor", "actor_tenant", "via", "subject", "reason", "detail"),),
}
"""The columns whose values make the digest, in this order for ever: all but `tx`, which a restore may change."""

_TABLES = {Source.EVENT: "events", Source.ENTRY: "audit_entries"}
_JSON = frozenset({"before", "after", "detail"})
_MICROSECONDS = "CASE WHEN isfinite(at) THEN (EXTRACT(EPOCH FROM at) * 1000000)::bigint END"


class CommitPosition(NamedTuple):
    """A place in the order of commits; SQLite has ids alone."""

    tx: int
    id: int


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements for one table on one kind of database."""

    following: TextClause
    """The rows behind a position whose transactions have ended, in the order of their commits."""
    some: TextClause
    """The rows with these ids."""
    sealed_ids: TextClause
    """The ids of a tenant's rows that a position covers, in order."""
    pending: TextClause
    """The number of rows of a tenant behind a position."""


def _sqlite(source: Source) -> Statements:
    table, columns = _TABLES[source], ", ".join(f'"{name}"' for name in _COLUMNS[source])
    return _statements(
        f"SELECT 0, {columns} FROM {table} WHERE id > :id AND :tx = 0 ORDER BY id LIMIT :most",  # nosec B608 # noqa: S608 - names of this module
        f"SELECT 0, {columns} FROM {table} WHERE id IN :ids",  # nosec B608 # noqa: S608 - names of this module
        f"SELECT id FROM {table} WHERE tenant = :tenant AND id <= :id AND :tx = 0 ORDER BY id",  # nosec B608 # noqa: S608 - names of this module
        f"SELECT count(*) FROM {table} WHERE tenant = :tenant AND id > :id AND :tx = 0",  # nosec B608 # noqa: S608 - names of this module
    )


def _postgres(source: Source) -> Statements:
    table = _TABLES[source]
    columns = ", ".join(_portable(name) for name in _COLUMNS[source])
    return _statements(
        f"SELECT tx, {columns} FROM {table} WHERE tx < {OLDEST_OPEN} AND (tx, id) > (:tx, :id)"  # noqa: S608 - names of this module
        " ORDER BY tx, id LIMIT :most",  # nosec B608 # likewise
        f"SELECT tx, {columns} FROM {table} WHERE id IN :ids",  # nosec B608 # noqa: S608 - names of this module
        f"SELECT id FROM {table} WHERE tenant = :tenant AND (tx IS NULL OR (tx, id) <= (:tx, :id)) ORDER BY id",  # nosec B608 # noqa: S608 - names of this module
        f"SELECT count(*) FROM {table} WHERE tenant = :tenant AND (tx, id) > (:tx, :id)",  # nosec B608 # noqa: S608 - names of this module
    )


def _portable(name: str) -> str:
    if name == "at":
        return _MICROSECONDS
    return f'"{name}"::text' if name in _JSON else f'"{name}"'


def _statements(following: str, some: str, sealed_ids: str, pending: str) -> Statements:
    return Statements(
        text(following), text(some).bindparams(bindparam("ids", expanding=True)), text(sealed_ids), text(pending)
    )


_SQLITE = {source: _sqlite(source) for source in Source}
_POSTGRES = {source: _postgres(source) for source in Source}


def statements(connection: Connection, source: Source) -> Statements:
    return (_SQLITE if dialect_of(connection).ids_follow_commits else _POSTGRES)[source]


class ReadRow(NamedTuple):
    """A row that is to be sealed."""

    position: CommitPosition
    tenant: str
    sealed: SealedRow
    at: datetime | None
    """None where it cannot be read."""


def following(connection: Connection, source: Source, behind: CommitPosition, most: int) -> list[ReadRow]:
    """Return the next rows behind a position, in the order of their commits."""
    parameters = {"tx": behind.tx, "id": behind.id, "most": most}
    rows = _stored(connection, statements(connection, source).following, parameters)
    at = 1 + _COLUMNS[source].index("at")
    return [
        ReadRow(CommitPosition(row[0], row[1]), _words(row[2]), _sealed(source, row[1:]), _time(row[at]))
        for row in rows
    ]


def digests(connection: Connection, source: Source, ids: Sequence[int]) -> dict[int, tuple[str, bytes]]:
    """Return the tenant and the digest of each of these rows that exists."""
    rows = _stored(connection, statements(connection, source).some, {"ids": list(ids)})
    return {row[1]: (_words(row[2]), _sealed(source, row[1:]).digest) for row in rows}


def _stored(connection: Connection, statement: TextClause, parameters: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
    """Return the rows. Where a text cannot be decoded, all are read again with such texts as bytes, which is slower."""
    try:
        return connection.execute(statement, parameters).all()
    except DBAPIError as problem:
        if not is_damage(problem):
            raise
    with dialect_of(connection).undecoded(connection):
        return connection.execute(statement, parameters).all()


def _sealed(source: Source, values: Sequence[Any]) -> SealedRow:
    names = _COLUMNS[source]
    content = [_decoded(value) if name in _JSON else value for name, value in zip(names, values, strict=True)]
    return SealedRow(source, values[0], digest(content))


def _decoded(stored: Any) -> Any:
    """Return stored JSON as values, so that blanks and the order of members do not count; else what is stored."""
    if stored is None:
        return None
    try:
        return json.loads(stored)
    except (ValueError, TypeError, RecursionError):
        return ["unreadable", stored]


def _time(stored: Any) -> datetime | None:
    try:
        return from_microseconds(stored)
    except (TypeError, ValueError, OverflowError):
        return None


def _words(stored: Any) -> str:
    return stored if isinstance(stored, str) else repr(stored)

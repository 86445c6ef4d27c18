"""The version of the schema: create, check, upgrade.

A database at HEAD_VERSION is used as it is, without an import of Alembic; a new one gets its tables from the models.
Only an older one runs migrations; a test proves that both give the same schema.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from duetime.scheduler.errors import InvalidSetting, SchemaTooNew, SchemaTooOld
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.store.database.server_keys import make_keys
from duetime.scheduler.store.database.sqlite import Sqlite
from duetime.scheduler.store.migrations import trigrams
from duetime.scheduler.store.migrations.copy import copy_file
from duetime.scheduler.store.migrations.table_locks import BlockersNotice, hold_upgrades, lock_tables, unnoticed
from duetime.scheduler.store.schema.base import Base
from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    String,
    Table,
    create_mock_engine,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.schema import ExecutableDDLElement

HEAD_VERSION = "0059"
"""The newest migration; numbers tell older from newer without reading the migrations."""

NO_WAY_BACK = (
    "Upgrade Duetime here for what is new in it. No command takes a schema back: to leave the newer version, restore a "
    "backup from before its upgrade."
)

COMPATIBLE_FROM = "0025"
"""The oldest code, by its HEAD_VERSION, that may work on a database of this one.

Code and schema of two versions meet during a rolling upgrade. A migration keeps this as it is if it only adds what
older code leaves alone: tables, indexes, columns that may stay empty. Any other one sets its own number.
"""

version = Table(
    "duetime_version",
    MetaData(),
    Column("version_num", String(32), primary_key=True),
    Column("compatible_from", String(32), nullable=True),
)


Reached = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The upgrade of a schema: its version before (None for a new database), and its version now.

    `copied` is the path of the copy of an older SQLite file, if one was made. `indexes` are those that were built
    afterwards, in a PostgreSQL database.
    """

    before: str | None
    now: str
    copied: str | None = None
    indexes: tuple[str, ...] = ()


def revision(connection: Connection) -> str | None:
    """Return the schema's version; None for a database without one."""
    if not inspect(connection).has_table(version.name):
        return None
    return connection.execute(select(version.c.version_num)).scalar()


def check(database: Database) -> None:
    """Raise `SchemaTooOld` or `SchemaTooNew` unless the schema has the version of this code."""
    found = database.read(_usable)
    if not _is_current(found):
        raise SchemaTooOld(
            f"The database's schema is {found or 'missing'}, this Duetime needs {HEAD_VERSION}. "
            "Run `duetime migrate` first."
        )


def upgrade(
    database: Database, reached: Reached = lambda _version: None, waiting: BlockersNotice = unnoticed
) -> Upgrade:
    """Upgrade the schema to HEAD_VERSION from any older version, and return the versions before and after.

    Several processes may call this at once: one upgrades, the others wait and find it done. `reached` is called with
    each version on the way, `waiting` with the ids of PostgreSQL's processes that it waits for.
    """
    if isinstance(database, Postgres):
        database.write(lambda connection: hold_upgrades(connection, waiting))  # one that goes on locks the version too
    found = database.read(_usable)
    if found and _is_current(found):
        return Upgrade(found, found)
    copied = _copy(database, found) if found and isinstance(database, Sqlite) else None
    database.migrate(lambda connection: _bring_to_head(connection, reached, waiting))
    return Upgrade(found, HEAD_VERSION, str(copied) if copied else None)


def _usable(connection: Connection) -> str | None:
    """Return the schema's version. Raises SchemaTooNew for a newer one that this code may not use."""
    found = revision(connection)
    if not _is_newer(found):
        return found
    if "compatible_from" in {column["name"] for column in inspect(connection).get_columns(version.name)}:
        oldest = connection.execute(select(version.c.compatible_from)).scalar()
        if oldest and oldest.isdigit() and int(oldest) <= int(HEAD_VERSION):
            return found
    _refuse_newer(found)
    return found


def newer_in_words(found: str) -> str:
    """Return what to say of a newer schema that this code may use; empty for its own."""
    return f"schema {found}, newer than this version ({HEAD_VERSION}), which may use it" if _is_newer(found) else ""


def _is_newer(found: str | None) -> bool:
    return bool(found) and not (str(found).isdigit() and int(str(found)) <= int(HEAD_VERSION))


def _is_current(found: str | None) -> bool:
    """Whether this code has nothing to upgrade: a newer schema is used as it is."""
    return found == HEAD_VERSION or _is_newer(found)


def _refuse_newer(found: str | None) -> None:
    if _is_newer(found):
        raise SchemaTooNew(
            f"The database was written by a newer Duetime (schema {found}, this one knows {HEAD_VERSION}). "
            "Upgrade Duetime here; nothing was changed."
        )


def _bring_to_head(connection: Connection, reached: Reached, waiting: BlockersNotice) -> None:
    if connection.dialect.name == "postgresql":
        hold_upgrades(connection, waiting)
    found = _usable(connection)  # again: only now no other process can change it
    if found is None:
        _create(connection)
    elif not _is_current(found):
        from duetime.scheduler.store.migrations.run import run  # noqa: PLC0415 - Alembic is slow to import

        if connection.dialect.name == "postgresql":
            lock_tables(connection, waiting)
        run(connection, HEAD_VERSION, reached)
        connection.execute(update(version).values(compatible_from=COMPATIBLE_FROM))
    make_keys(connection)


def _create(connection: Connection) -> None:
    existing = set(inspect(connection).get_table_names())
    strangers = existing if connection.dialect.name == "sqlite" else existing & set(Base.metadata.tables)
    _refuse_strangers(strangers)
    for statement in _tables(connection.dialect.name):
        connection.exec_driver_sql(statement)
    trigrams.create(connection)
    version.create(connection)
    connection.execute(insert(version).values(version_num=HEAD_VERSION, compatible_from=COMPATIBLE_FROM))


@cache
def _tables(dialect: str) -> tuple[str, ...]:
    """Return the statements that create the tables and their indexes: compiling them takes longer than running them."""
    statements: list[str] = []

    def note(ddl: ExecutableDDLElement, *_: Any, **__: Any) -> None:
        statements.append(str(ddl.compile(dialect=engine.dialect)))

    engine = create_mock_engine(f"{dialect}://", note)
    Base.metadata.create_all(engine, checkfirst=False)
    return tuple(statements)


def refuse_foreign(file: sqlite3.Connection) -> None:
    """Raise `InvalidSetting` for another program's SQLite file, without changing it: not even its journal mode."""
    try:
        tables = {name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.Error:
        return  # one that the next statement will refuse
    if version.name not in tables:
        _refuse_strangers(tables)


def _refuse_strangers(tables: set[str]) -> None:
    if tables:
        raise InvalidSetting(
            f"database_url: the database belongs to another program (it has the table {min(tables)!r}). "
            "Name a new file, or an empty database, for Duetime."
        )


def _copy(database: Sqlite, found: str) -> Path | None:
    """Copy the file into the same folder."""
    if database.path is None:
        return None
    path = Path(database.path)
    return copy_file(database, path.with_name(f"{path.name}.schema-{found}"))

"""SQLite: change the definition of a table, which has to be copied for that; PostgreSQL has statements for it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from sqlalchemy import Connection

_COPY = "rebuilt"
_SQL = "SELECT sql FROM sqlite_master WHERE tbl_name = ? AND type = ? AND sql IS NOT NULL"
_COLUMNS = "SELECT name FROM pragma_table_info(?)"


def drop_constraints(connection: Connection, table: str, names: Collection[str]) -> None:
    """Copy the table without these constraints."""
    rebuild(connection, table, lambda made: without(made, names))


def rebuild(connection: Connection, table: str, edit: Callable[[str], str]) -> None:
    """Copy the table with an edited definition; the caller has switched foreign keys off (`Database.migrate`)."""
    [made] = connection.exec_driver_sql(_SQL, (table, "table")).scalars().all()
    indexes = connection.exec_driver_sql(_SQL, (table, "index")).scalars().all()
    columns = ", ".join(f'"{name}"' for name in connection.exec_driver_sql(_COLUMNS, (table,)).scalars())
    connection.exec_driver_sql(edit(made).replace(table, _COPY, 1))
    copy = f"INSERT INTO {_COPY} ({columns}) SELECT {columns} FROM {table}"  # nosec B608 # noqa: S608 - names of this program
    connection.exec_driver_sql(copy)
    connection.exec_driver_sql(f"DROP TABLE {table}")
    connection.exec_driver_sql(f"ALTER TABLE {_COPY} RENAME TO {table}")
    for index in indexes:
        connection.exec_driver_sql(index)


def without(ddl: str, names: Collection[str]) -> str:
    """Return a CREATE TABLE without the constraints of these names."""
    head, _, rest = ddl.partition("(")
    body, _, tail = rest.rpartition(")")
    dropped = tuple(f"CONSTRAINT {name} " for name in names)
    kept = [part for part in _parts(body) if not part.strip().startswith(dropped)]
    return f"{head}({','.join(kept)}){tail}"


def with_column(ddl: str, column: str) -> str:
    """Return a CREATE TABLE with one more column."""
    head, _, rest = ddl.partition("(")
    return f"{head}({column}, {rest}"


def _parts(body: str) -> Iterator[str]:
    """Split at the commas that stand in no parentheses."""
    depth, start = 0, 0
    for place, character in enumerate(body):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            yield body[start:place]
            start = place + 1
    yield body[start:]

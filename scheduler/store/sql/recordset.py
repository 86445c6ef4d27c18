"""PostgreSQL takes the rows of a batch as one parameter: a JSON document that `jsonb_to_recordset` makes a table of.

One statement for any number of rows is one round trip, one execution, and one text that the server plans once. A
statement written for one row becomes that by putting the recordset's columns where its parameters are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast

from duetime.scheduler.store.schema.types import ClosedSet, Instant, JsonValue, Strings, Words, encode
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    CursorResult,
    Dialect,
    Executable,
    Insert,
    Integer,
    Select,
    Update,
    bindparam,
    column,
    func,
    literal,
    select,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.sql import visitors
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.visitors import ExternallyTraversible
from sqlalchemy.types import TypeDecorator, TypeEngine

Rows = Sequence[Mapping[str, Any]]

E = TypeVar("E", bound=ExternallyTraversible)
Converter = Callable[[Any], Any]

Types = Mapping[str, TypeEngine[Any]]

ROWS = "rows"
_ALL = 2**31 - 1
_AS_THEY_ARE = (ClosedSet, Words, Strings)
"""Types whose values JSON writes as PostgreSQL reads them; `encode` replaces what it does not store."""


def recordset(types: Mapping[str, TypeEngine[Any]], parameter: str, name: str = "given") -> Any:
    """Return a table of these columns, whose rows are the JSON parameter's."""
    columns = [column(key, kind) for key, kind in types.items()]
    rows = func.jsonb_to_recordset(bindparam(parameter, type_=JSONB()))
    return rows.table_valued(*columns, name=name).render_derived(name=name, with_types=True)


def few(given: Any) -> Any:
    """Return the same rows where other tables are joined to them: the planner is to take them for few, so 10 not 100.

    It takes a limit that it does not know for a tenth of what there is.
    """
    return select(given).limit(bindparam("all", _ALL, type_=Integer())).subquery(given.name)


@dataclass(frozen=True, slots=True)
class Document:
    """Writes rows as the JSON document of a recordset."""

    names: Sequence[str]
    converters: Mapping[str, Converter]

    @classmethod
    def of(cls, types: Mapping[str, TypeEngine[Any]], dialect: Dialect) -> Document:
        return cls(list(types), {name: made for name, kind in types.items() if (made := _converter(kind, dialect))})

    def written(self, rows: Rows) -> str:
        converters = self.converters
        return encode(
            [
                {
                    name: converters[name](value) if name in converters else value
                    for name in self.names
                    if (value := row[name]) is not None
                }
                for row in rows
            ]
        )


def _converter(kind: TypeEngine[Any], dialect: Dialect) -> Converter | None:
    if isinstance(kind, Instant):
        return _instant
    if not isinstance(kind, TypeDecorator) or isinstance(kind, _AS_THEY_ARE) or type(kind) is JsonValue:
        return None
    return lambda value: kind.process_bind_param(value, dialect)


def _instant(value: datetime) -> str:
    if value.tzinfo is None:
        msg = f"a naive datetime ({value.isoformat()}) is not an instant; attach its time zone"
        raise ValueError(msg)
    return value.isoformat()


class RowStatement(NamedTuple):
    """An INSERT or UPDATE as it is written for one row, and the columns that an INSERT takes from its rows."""

    statement: Insert | Update
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class CompiledStatement:
    """The text for the driver, and what each of its parameters is made of, in the order of the statements."""

    sql: str
    documents: Mapping[str, Document]
    constants: Mapping[str, Any]

    def run(self, connection: Connection, *rows: Rows) -> int:
        """Execute all; returns how many rows of its table the first found or made."""
        done = self.execute(connection, *rows)
        return done.rowcount if len(rows) == 1 else done.scalar_one()

    def execute(self, connection: Connection, *rows: Rows) -> CursorResult[Any]:
        parameters = dict(self.constants)
        for (name, document), of_this in zip(self.documents.items(), rows, strict=True):
            parameters[name] = document.written(of_this)
        return connection.exec_driver_sql(self.sql, parameters)


def planned(written: Sequence[RowStatement], dialect: Dialect) -> CompiledStatement:
    """Return the statements, each of one row, as one statement of many rows of each."""
    types = [types_of(*each, dialect) for each in written]
    many = [of_many(*each, of_this, number) for number, (each, of_this) in enumerate(zip(written, types, strict=True))]
    return compiled(many[0] if len(many) == 1 else _together(many), types, dialect)


def compiled(whole: Executable, types: Sequence[Types], dialect: Dialect) -> CompiledStatement:
    """Return a statement whose parameters are recordsets of these types."""
    text = whole.compile(dialect=dialect)  # type: ignore[attr-defined]  # every statement has it
    assert isinstance(text, SQLCompiler)
    documents = {parameter(number): Document.of(of_this, dialect) for number, of_this in enumerate(types)}
    return CompiledStatement(text.string, documents, constants(text, dialect))


def parameter(number: int) -> str:
    """Return the name of the recordset of a statement's part."""
    return f"{ROWS}_{number}"


def of_many(
    statement: Insert | Update,
    columns: Sequence[str],
    types: Types,
    number: int,
    where: Callable[[Any], ColumnElement[bool]] = lambda _given: true(),
) -> Insert | Update:
    """Return a statement of one row for all rows of a recordset of which `where` holds."""
    given = recordset(types, parameter(number))
    if isinstance(statement, Insert):
        return _inserting(statement, columns, given, where)
    rows = few(given)
    return with_columns(statement.where(where(rows)), rows.c)


def _together(many: Sequence[Insert | Update]) -> Select[int]:
    first, *others = many
    counted = first.returning(literal(1).label("one")).cte("first")
    return select(func.count(counted.c.one)).add_cte(*(each.cte(f"other_{n}") for n, each in enumerate(others)))


def constants(compiled: SQLCompiler, dialect: Dialect) -> dict[str, Any]:
    """Return the parameters of a statement that are already known, as the driver takes them."""
    found = {}
    for bind, name in compiled.bind_names.items():
        process = bind.type.dialect_impl(dialect).bind_processor(dialect)
        if not bind.required:
            found[name] = process(bind.value) if process else bind.value
    return found


def types_of(statement: Insert | Update, columns: Sequence[str], dialect: Dialect) -> dict[str, TypeEngine[Any]]:
    """Return what a row has to have, each with its type: the statement's parameters without a value."""
    compiled = statement.compile(dialect=dialect, column_keys=list(columns), for_executemany=True)
    assert isinstance(compiled, SQLCompiler)
    return {name: bind.type for bind, name in compiled.bind_names.items() if bind.required}


def _inserting(
    statement: Insert, columns: Sequence[str], given: Any, where: Callable[[Any], ColumnElement[bool]]
) -> Insert:
    computed = dict(statement._values or {})  # noqa: SLF001 - there is no other way to them
    values = {name: given.c[name] for name in columns} | {
        name: with_columns(it, given.c) for name, it in computed.items()
    }
    return statement.table.insert().from_select(
        list(values), select(*values.values()).select_from(given).where(where(given))
    )


def with_columns(element: E, columns: Mapping[str, ColumnElement[Any]]) -> E:
    """Return the statement with these columns in the places of its parameters of these names."""

    def replace(element: Any, **_options: Any) -> Any:
        return columns.get(element.key) if isinstance(element, BindParameter) else None

    found: Any = visitors.replacement_traverse(element, {}, replace)
    return cast("E", found)

"""PostgreSQL: the rows of a batch as one JSON parameter, which `jsonb_to_recordset` turns into a table.

One statement for any number of rows is one round trip, one execution, and one text that the server plans once. A
statement written for one row becomes such a statement when columns of the record set replace its parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from duetime.scheduler.store.schema.json_types import Strings
from duetime.scheduler.store.schema.types import ClosedSet, Converted, Converter, Instant, Words
from duetime.scheduler.store.schema.values import encode, instant_text
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
from sqlalchemy.types import TypeEngine

Rows = Sequence[Mapping[str, Any]]

E = TypeVar("E", bound=ExternallyTraversible)

Types = Mapping[str, TypeEngine[Any]]

ROWS = "rows"
MAX_ROWS = 2**31 - 1
_AS_THEY_ARE = (ClosedSet, Words, Strings)
"""Types whose values have the same text in JSON and in PostgreSQL; `encode` replaces unstorable characters."""


def recordset(types: Mapping[str, TypeEngine[Any]], parameter: str, name: str = "given") -> Any:
    """Return a table of these columns, with the rows of the JSON parameter."""
    columns = [column(key, kind) for key, kind in types.items()]
    rows = func.jsonb_to_recordset(bindparam(parameter, type_=JSONB()))
    return rows.table_valued(*columns, name=name).render_derived(name=name, with_types=True)


def few(given: Any) -> Any:
    """Return the same rows with a LIMIT for a join: the planner then assumes 10 rows instead of 100.

    It takes an unknown limit for a tenth of the rows.
    """
    return select(given).limit(bindparam("all", MAX_ROWS, type_=Integer())).subquery(given.name)


@dataclass(frozen=True, slots=True)
class Document:
    """Writes rows as the JSON document of a record set."""

    columns: Sequence[tuple[str, Converter | None]]

    @classmethod
    def of(cls, types: Mapping[str, TypeEngine[Any]], dialect: Dialect) -> Document:
        return cls([(name, _converter(kind, dialect)) for name, kind in types.items()])

    def written(self, rows: Rows) -> str:
        return encode(
            [
                {
                    name: convert(value) if convert else value
                    for name, convert in self.columns
                    if (value := row[name]) is not None
                }
                for row in rows
            ]
        )


def _converter(kind: TypeEngine[Any], dialect: Dialect) -> Converter | None:
    if isinstance(kind, Instant):
        return instant_text
    return kind.written(dialect) if isinstance(kind, Converted) and not isinstance(kind, _AS_THEY_ARE) else None


class RowStatement(NamedTuple):
    """An INSERT or UPDATE written for one row, and the columns that an INSERT takes from its rows."""

    statement: Insert | Update
    columns: Sequence[str]


@dataclass(frozen=True, slots=True)
class CompiledStatement:
    """The SQL text, and the source of each parameter, in the order of the statements."""

    sql: str
    documents: Mapping[str, Document]
    constants: Mapping[str, Any]

    def run(self, connection: Connection, *rows: Rows) -> int:
        """Execute all; return the number of rows that the first statement found or inserted."""
        done = self.execute(connection, *rows)
        return done.rowcount if len(rows) == 1 else done.scalar_one()

    def execute(self, connection: Connection, *rows: Rows) -> CursorResult[Any]:
        parameters = dict(self.constants)
        for (name, document), of_this in zip(self.documents.items(), rows, strict=True):
            parameters[name] = document.written(of_this)
        return connection.exec_driver_sql(self.sql, parameters)


def planned(written: Sequence[RowStatement], dialect: Dialect) -> CompiledStatement:
    """Return these single-row statements as one statement for many rows of each."""
    types = [types_of(*each, dialect) for each in written]
    many = [of_many(*each, of_this, number) for number, (each, of_this) in enumerate(zip(written, types, strict=True))]
    return compiled(many[0] if len(many) == 1 else _together(many), types, dialect)


def compiled(whole: Executable, types: Sequence[Types], dialect: Dialect) -> CompiledStatement:
    """Compile a statement whose parameters are record sets of these types."""
    text = whole.compile(dialect=dialect)  # type: ignore[attr-defined]  # every statement has it
    assert isinstance(text, SQLCompiler)
    documents = {parameter(number): Document.of(of_this, dialect) for number, of_this in enumerate(types)}
    return CompiledStatement(text.string, documents, constants(text, dialect))


def parameter(number: int) -> str:
    """Return the name of the record set of one part of a statement."""
    return f"{ROWS}_{number}"


def of_many(
    statement: Insert | Update,
    columns: Sequence[str],
    types: Types,
    number: int,
    where: Callable[[Any], ColumnElement[bool]] = lambda _given: true(),
) -> Insert | Update:
    """Return a single-row statement for all rows of a record set for which `where` holds."""
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
    """Return the constant parameters of a statement, as the driver takes them."""
    found = {}
    for bind, name in compiled.bind_names.items():
        process = bind.type.dialect_impl(dialect).bind_processor(dialect)
        if not bind.required:
            found[name] = process(bind.value) if process else bind.value
    return found


def types_of(statement: Insert | Update, columns: Sequence[str], dialect: Dialect) -> dict[str, TypeEngine[Any]]:
    """Return by name the types of a statement's open parameters, which its rows must supply."""
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
    """Return the statement with these columns in place of its parameters of the same names."""

    def replace(element: Any, **_options: Any) -> Any:
        return columns.get(element.key) if isinstance(element, BindParameter) else None

    found: Any = visitors.replacement_traverse(element, {}, replace)
    return cast("E", found)

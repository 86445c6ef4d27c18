"""A column by which SQLite is to look no rows up, where a better one is compared as well."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import ColumnElement
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

T = TypeVar("T")


class UnindexedColumn(FunctionElement[T]):
    """The column as it is.

    Without statistics SQLite takes a few ids for more rows than a tenant has, and reads all rows of the tenant. A `+`
    before the tenant leaves the index of the ids. PostgreSQL has statistics.
    """

    inherit_cache = True


def unindexed(column: ColumnElement[T]) -> ColumnElement[T]:
    """Return a column whose index SQLite leaves alone, as ids are compared too."""
    found = UnindexedColumn[T](column)
    found.type = column.type
    return found


@compiles(UnindexedColumn)
def _as_it_is(element: UnindexedColumn[Any], compiler: SQLCompiler, **options: Any) -> str:
    return str(compiler.process(element.clauses.clauses[0], **options))


@compiles(UnindexedColumn, "sqlite")
def _with_plus(element: UnindexedColumn[Any], compiler: SQLCompiler, **options: Any) -> str:
    return f"+{compiler.process(element.clauses.clauses[0], **options)}"

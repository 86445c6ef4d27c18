"""Column types: how Duetime's values are stored.

Instants are microseconds since the epoch on SQLite (which has no type for them) and TIMESTAMP WITH TIME ZONE on
PostgreSQL. JSON is compact text on SQLite and JSONB on PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.store.schema.values import check_aware, check_year, from_microseconds, storable, to_microseconds
from sqlalchemy import BigInteger, Boolean, Dialect, Integer, String, Text
from sqlalchemy.dialects.postgresql import TIMESTAMP
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

S = TypeVar("S", bound=StrEnum)
T = TypeVar("T")

MAX_INTERVAL_US = 1000 * 366 * 24 * 3600 * 1_000_000
"""No length of time is longer: what adds it to an instant must not overflow."""

Converter = Callable[[Any], Any]


class Converted(TypeDecorator[T]):
    """A type with one function for each way, which gets None too; None in its place where values stay as they are.

    SQLAlchemy's own hooks cost two more calls for each value, and a run has two hundred.
    """

    impl: Any = Text
    cache_ok = True

    def written(self, dialect: Dialect) -> Converter | None:  # noqa: ARG002 - each type says for which database
        """Return the function from a value to what the driver takes."""
        return None

    def read(self, dialect: Dialect) -> Converter | None:  # noqa: ARG002 - as above
        """Return the function from what the driver gives to the value."""
        return None

    def bind_processor(self, dialect: Dialect) -> Converter | None:
        return one_after_other(self.written(dialect), self.impl_instance.bind_processor(dialect))

    def result_processor(self, dialect: Dialect, coltype: object) -> Converter | None:
        return one_after_other(self.impl_instance.result_processor(dialect, coltype), self.read(dialect))


def one_after_other(first: Converter | None, second: Converter | None) -> Converter | None:
    if first is None or second is None:
        return first or second
    return lambda value: second(first(value))


def is_postgres(dialect: Dialect) -> bool:
    return dialect.name == "postgresql"


class Instant(Converted[datetime]):
    """An aware datetime, given back in UTC to the microsecond."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(TIMESTAMP(timezone=True) if is_postgres(dialect) else BigInteger())

    def written(self, dialect: Dialect) -> Converter | None:
        return _aware if is_postgres(dialect) else _microseconds

    def read(self, dialect: Dialect) -> Converter | None:
        return _in_utc if is_postgres(dialect) else _instant


def _aware(value: datetime | None) -> datetime | None:
    if value is not None:
        check_aware(value)
    return value


def _in_utc(value: datetime | None) -> datetime | None:
    return None if value is None else check_year(value.astimezone(UTC))


def _microseconds(value: datetime | None) -> int | None:
    return None if value is None else to_microseconds(value)


def _instant(value: int | None) -> datetime | None:
    return None if value is None else from_microseconds(value)


class Interval(Converted[timedelta]):
    """A length of time, as whole microseconds."""

    impl = BigInteger
    cache_ok = True

    def written(self, dialect: Dialect) -> Converter | None:  # noqa: ARG002 - the base's
        return lambda value: None if value is None else value // MICROSECOND

    def read(self, dialect: Dialect) -> Converter | None:  # noqa: ARG002 - as above
        return _interval


def _interval(microseconds: int | None) -> timedelta | None:
    if microseconds is None:
        return None
    if not -MAX_INTERVAL_US < microseconds < MAX_INTERVAL_US:
        raise ValueError("longer than a thousand years")
    return timedelta(0, 0, microseconds)


class ClosedSet(Converted[S], Generic[S]):
    """A member of a closed set of words, stored as its text."""

    impl = String
    cache_ok = True

    def __init__(self, words: type[S]) -> None:
        super().__init__()
        self.words = words
        self._members: dict[str | None, S | None] = {None: None, **{member.value: member for member in words}}
        self._texts: dict[str | None, str | None] = {None: None, **{member: member.value for member in words}}

    def written(self, dialect: Dialect) -> Converter | None:  # noqa: ARG002 - as above
        return self._texts.__getitem__

    def read(self, dialect: Dialect) -> Converter | None:  # noqa: ARG002 - as above
        return self._members.__getitem__


class ThisTransaction(FunctionElement[int]):
    """As a column's default: the number of the transaction that inserts the row. SQLite needs none and has none."""

    inherit_cache = True


@compiles(ThisTransaction)
def _nothing(_element: ThisTransaction, _compiler: SQLCompiler, **_options: Any) -> str:
    return "NULL"


@compiles(ThisTransaction, "postgresql")
def _transaction_number(_element: ThisTransaction, _compiler: SQLCompiler, **_options: Any) -> str:
    return "((pg_current_xact_id())::text)::bigint"


def _only(kind: type, expected: str) -> Converter:
    """Return a function that refuses values of another type: SQLite stores any value in any column."""

    def checked(found: Any) -> Any:
        if found is not None and type(found) is not kind:
            raise TypeError(f"{type(found).__name__} where {expected} is expected")
        return found

    return checked


_text = _only(str, "text")
_whole_number = _only(int, "a whole number")
_FLAGS = {None: None, 0: False, 1: True}
_FLAG_NUMBERS = {None: None, False: 0, True: 1}


class Plain(Converted[str]):
    """Text of Duetime's own: ids, names, addresses."""

    cache_ok = True

    def read(self, dialect: Dialect) -> Converter | None:
        return None if is_postgres(dialect) else _text


class Words(Plain):
    """Text from users or handlers: storable characters only."""

    cache_ok = True

    def written(self, dialect: Dialect) -> Converter | None:  # noqa: ARG002 - as above
        return lambda value: None if value is None else storable(value)


class WholeNumber(Converted[int]):
    """An integer."""

    impl = Integer
    cache_ok = True

    def read(self, dialect: Dialect) -> Converter | None:
        return None if is_postgres(dialect) else _whole_number


class Truth(Converted[bool]):
    """True or false; SQLite stores 1 or 0."""

    impl = Boolean
    cache_ok = True

    def bind_processor(self, dialect: Dialect) -> Converter | None:
        return super().bind_processor(dialect) if is_postgres(dialect) else _FLAG_NUMBERS.__getitem__

    def result_processor(self, dialect: Dialect, coltype: object) -> Converter | None:
        return super().result_processor(dialect, coltype) if is_postgres(dialect) else _FLAGS.__getitem__

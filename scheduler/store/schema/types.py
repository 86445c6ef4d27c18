"""Column types: how Duetime's values are stored.

Instants are microseconds since the epoch on SQLite (which has no type for them) and TIMESTAMP WITH TIME ZONE on
PostgreSQL. JSON is compact text on SQLite and JSONB on PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Generic, TypeVar

from duetime.scheduler.store.schema.values import (
    MICROSECOND,
    check_aware,
    decode,
    encode,
    from_microseconds,
    storable,
    to_microseconds,
)
from duetime.scheduler.task import Json, RetryPolicy
from sqlalchemy import BigInteger, Dialect, String, Text
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

S = TypeVar("S", bound=StrEnum)
T = TypeVar("T")
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
        return _one_after_other(self.written(dialect), self.impl_instance.bind_processor(dialect))

    def result_processor(self, dialect: Dialect, coltype: object) -> Converter | None:
        return _one_after_other(self.impl_instance.result_processor(dialect, coltype), self.read(dialect))


def _one_after_other(first: Converter | None, second: Converter | None) -> Converter | None:
    if first is None or second is None:
        return first or second
    return lambda value: second(first(value))


def _is_postgres(dialect: Dialect) -> bool:
    return dialect.name == "postgresql"


class Instant(Converted[datetime]):
    """An aware datetime, given back in UTC to the microsecond."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(TIMESTAMP(timezone=True) if _is_postgres(dialect) else BigInteger())

    def written(self, dialect: Dialect) -> Converter | None:
        return _aware if _is_postgres(dialect) else _microseconds

    def read(self, dialect: Dialect) -> Converter | None:
        return _in_utc if _is_postgres(dialect) else _instant


def _aware(value: datetime | None) -> datetime | None:
    if value is not None:
        check_aware(value)
    return value


def _in_utc(value: datetime | None) -> datetime | None:
    return None if value is None else value.astimezone(UTC)


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
        return lambda value: None if value is None else timedelta(0, 0, value)


class JsonValue(Converted[Any]):
    """Any JSON; Python's None is SQL's NULL. On PostgreSQL the engine's serializer is `encode` too."""

    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(JSONB(none_as_null=True) if _is_postgres(dialect) else Text())

    def written(self, dialect: Dialect) -> Converter | None:
        return None if _is_postgres(dialect) else _encoded

    def read(self, dialect: Dialect) -> Converter | None:
        return None if _is_postgres(dialect) else _decoded


def _encoded(value: Json) -> str | None:
    return None if value is None else encode(value)


def _decoded(text: str | None) -> Json:
    return None if text is None else decode(text)


class JsonObject(JsonValue):
    """A JSON object; any other stored value is unreadable."""

    cache_ok = True

    def read(self, dialect: Dialect) -> Converter | None:
        return _one_after_other(super().read(dialect), _an_object)


def _an_object(found: Json) -> Json:
    if found is not None and not isinstance(found, dict):
        raise TypeError(f"{type(found).__name__} where an object is expected")
    return found


class Strings(JsonValue):
    """A tuple of strings, as a JSON list."""

    cache_ok = True

    def written(self, dialect: Dialect) -> Converter | None:
        strings: Converter = list if _is_postgres(dialect) else strings_text
        return lambda value: None if value is None else strings(value)

    def read(self, dialect: Dialect) -> Converter | None:
        return (lambda value: tuple(value or ())) if _is_postgres(dialect) else lambda text: _strings(text or "[]")


class Retrying(JsonValue):
    """A retry policy, as a JSON object with durations in seconds."""

    cache_ok = True

    def written(self, dialect: Dialect) -> Converter | None:
        policy: Converter = policy_to_json if _is_postgres(dialect) else policy_text
        return lambda value: None if value is None else policy(value)

    def read(self, dialect: Dialect) -> Converter | None:
        policy = policy_from_json if _is_postgres(dialect) else _policy
        return lambda value: None if value is None else policy(value)


@lru_cache(maxsize=1000)
def _strings(text: str) -> tuple[str, ...]:
    return tuple(decode(text))


@lru_cache(maxsize=1000)
def strings_text(words: tuple[str, ...]) -> str:
    return encode(list(words))


@lru_cache(maxsize=1000)
def policy_text(policy: RetryPolicy) -> str:
    return encode(policy_to_json(policy))


@lru_cache(maxsize=1000)
def _policy(text: str) -> RetryPolicy:
    """Parse a policy; cached, because most tasks have the same immutable one."""
    return policy_from_json(decode(text))


def policy_to_json(policy: RetryPolicy) -> dict[str, Json]:
    return {
        "max_attempts": policy.max_attempts,
        "backoff": policy.backoff.total_seconds(),
        "max_backoff": policy.max_backoff.total_seconds(),
    }


def policy_from_json(value: Mapping[str, Any]) -> RetryPolicy:
    return RetryPolicy(
        max_attempts=value["max_attempts"],
        backoff=timedelta(seconds=value["backoff"]),
        max_backoff=timedelta(seconds=value["max_backoff"]),
    )


class ClosedSet(Converted[S], Generic[S]):
    """A member of a closed set of words, stored as its text."""

    impl = String
    cache_ok = True

    def __init__(self, words: type[S]) -> None:
        super().__init__()
        self.words = words
        self._members: dict[str | None, S | None] = {None: None, **{member.value: member for member in words}}

    def written(self, dialect: Dialect) -> Converter | None:  # noqa: ARG002 - as above
        return lambda value: None if value is None else str(value)

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


def _text(found: str | None) -> str | None:
    if found is not None and not isinstance(found, str):
        raise TypeError(f"{type(found).__name__} where text is expected")
    return found


class Words(Converted[str]):
    """Text from users or handlers: storable characters only. SQLite may hold bytes in its place: unreadable."""

    cache_ok = True

    def written(self, dialect: Dialect) -> Converter | None:  # noqa: ARG002 - as above
        return lambda value: None if value is None else storable(value)

    def read(self, dialect: Dialect) -> Converter | None:
        return None if _is_postgres(dialect) else _text

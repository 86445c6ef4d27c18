"""Column types: how Duetime's values are stored.

Instants are microseconds since the epoch on SQLite (which has no type for them) and TIMESTAMP WITH TIME ZONE on
PostgreSQL. JSON is compact text on SQLite and JSONB on PostgreSQL.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Generic, TypeVar

from duetime.scheduler.task import Json, RetryPolicy
from sqlalchemy import BigInteger, Dialect, String, Text
from sqlalchemy.dialects.postgresql import JSONB, TIMESTAMP
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator, TypeEngine

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_EMPTY: Mapping[str, Callable[[], Json]] = {"{}": dict, "[]": list}
_DECODE = json.JSONDecoder().decode
_ENCODE = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_SUSPECT_JSON = re.compile(r"\\u(?:0000|d[89a-f])")

S = TypeVar("S", bound=StrEnum)


def to_microseconds(instant: datetime) -> int:
    """Return whole microseconds since 1970 in UTC; a naive datetime is refused."""
    if instant.tzinfo is None:
        msg = f"a naive datetime ({instant.isoformat()}) is not an instant; attach its time zone"
        raise ValueError(msg)
    return (instant - _EPOCH) // _MICROSECOND


def from_microseconds(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


def storable(text: str) -> str:
    """Replace characters that no database stores (NUL, lone surrogates) by U+FFFD, so that text never fails a write."""
    if text.isascii() and "\0" not in text:
        return text  # nearly every text, without a search
    return _UNSTORABLE.sub("\N{REPLACEMENT CHARACTER}", text)


def encode(value: Json) -> str:
    """Return compact JSON; NaN and infinities are refused, unstorable characters replaced."""
    text = _ENCODE(value)
    return _ENCODE(_cleaned(_DECODE(text))) if _SUSPECT_JSON.search(text) else text


def decode(text: str | bytes) -> Any:
    """Parse JSON in UTF-8, with a shortcut for empty values, which are the most frequent."""
    if isinstance(text, bytes):
        text = text.decode()
    empty = _EMPTY.get(text)
    return empty() if empty is not None else _DECODE(text)


def _cleaned(value: Json) -> Json:
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable(key): _cleaned(item) for key, item in value.items()}
    return [_cleaned(item) for item in value] if isinstance(value, list) else value


class Instant(TypeDecorator[datetime]):
    """An aware datetime, given back in UTC to the microsecond."""

    impl = BigInteger
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(TIMESTAMP(timezone=True) if dialect.name == "postgresql" else BigInteger())

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        if value is None:
            return None
        microseconds = to_microseconds(value)
        return value if dialect.name == "postgresql" else microseconds

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.astimezone(UTC) if dialect.name == "postgresql" else from_microseconds(value)


class Interval(TypeDecorator[timedelta]):
    """A length of time, as whole microseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: timedelta | None, dialect: Dialect) -> int | None:  # noqa: ARG002 - the base's
        return None if value is None else value // _MICROSECOND

    def process_result_value(self, value: int | None, dialect: Dialect) -> timedelta | None:  # noqa: ARG002 - as above
        return None if value is None else timedelta(microseconds=value)


class JsonValue(TypeDecorator[Any]):
    """Any JSON; Python's None is SQL's NULL. On PostgreSQL the engine's serializer is `encode` too."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(JSONB(none_as_null=True) if dialect.name == "postgresql" else Text())

    def process_bind_param(self, value: Json, dialect: Dialect) -> Json:
        return value if value is None or dialect.name == "postgresql" else encode(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return value if value is None or dialect.name == "postgresql" else decode(value)


class JsonObject(JsonValue):
    """A JSON object; any other stored value is unreadable."""

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        found = super().process_result_value(value, dialect)
        if found is not None and not isinstance(found, dict):
            raise TypeError(f"{type(found).__name__} where an object is expected")
        return found


class Strings(JsonValue):
    """A tuple of strings, as a JSON list."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Json:
        if value is None:
            return None
        return list(value) if dialect.name == "postgresql" else _strings_text(tuple(value))

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        return tuple(value or ()) if dialect.name == "postgresql" else _strings(value or "[]")


class Retrying(JsonValue):
    """A retry policy, as a JSON object with durations in seconds."""

    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Json:
        if value is None:
            return None
        return policy_to_json(value) if dialect.name == "postgresql" else policy_text(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        if value is None:
            return None
        return policy_from_json(value) if dialect.name == "postgresql" else _policy(value)


@lru_cache(maxsize=1000)
def _strings(text: str) -> tuple[str, ...]:
    return tuple(_DECODE(text))


@lru_cache(maxsize=1000)
def _strings_text(words: tuple[str, ...]) -> str:
    return encode(list(words))


@lru_cache(maxsize=1000)
def policy_text(policy: RetryPolicy) -> str:
    return encode(policy_to_json(policy))


@lru_cache(maxsize=1000)
def _policy(text: str) -> RetryPolicy:
    """Parse a policy; cached, because most tasks have the same immutable one."""
    return policy_from_json(_DECODE(text))


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


class ClosedSet(TypeDecorator[S], Generic[S]):
    """A member of a closed set of words, stored as its text."""

    impl = String
    cache_ok = True

    def __init__(self, words: type[S]) -> None:
        super().__init__()
        self.words = words
        self._members = {member.value: member for member in words}

    def process_bind_param(self, value: S | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - as above
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> S | None:  # noqa: ARG002 - as above
        return None if value is None else self._members[value]


class ThisTransaction(FunctionElement[int]):
    """As a column's default: the number of the transaction that inserts the row. SQLite needs none and has none."""

    inherit_cache = True


@compiles(ThisTransaction)
def _nothing(_element: ThisTransaction, _compiler: SQLCompiler, **_options: Any) -> str:
    return "NULL"


@compiles(ThisTransaction, "postgresql")
def _transaction_number(_element: ThisTransaction, _compiler: SQLCompiler, **_options: Any) -> str:
    return "((pg_current_xact_id())::text)::bigint"


class Words(TypeDecorator[str]):
    """Text from users or handlers: storable characters only."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002 - as above
        return value if value is None else storable(value)

"""Column types of what is stored as JSON: compact text on SQLite, JSONB on PostgreSQL. Another shape is refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, timedelta
from functools import lru_cache
from typing import Any

from duetime.scheduler.store.schema.types import Converted, Converter, is_postgres, one_after_other
from duetime.scheduler.store.schema.values import decode, encode
from duetime.scheduler.task import Coalesce, Json, Overlap, RepeatPolicy, RetryPolicy
from sqlalchemy import Dialect, Text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine


class JsonValue(Converted[Any]):
    """Any JSON; Python's None is SQL's NULL. On PostgreSQL the engine's serializer is `encode` too.

    `shape` makes the value from what was parsed. NULL, which most of these columns hold, skips both.
    """

    cache_ok = True
    shape: Converter | None = None

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(JSONB(none_as_null=True) if is_postgres(dialect) else Text())

    def written(self, dialect: Dialect) -> Converter | None:
        return None if is_postgres(dialect) else _encoded

    def read(self, dialect: Dialect) -> Converter | None:
        shape = self.shape
        if is_postgres(dialect):
            return shape and (lambda found: None if found is None else shape(found))
        if shape is None:
            return lambda text: None if text is None else decode(text)
        return lambda text: None if text is None else shape(decode(text))


def _encoded(value: Json) -> str | None:
    return None if value is None else encode(value)


def _an_object(found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise TypeError(f"{type(found).__name__} where an object is expected")
    return found


def _numbers(found: Any) -> Mapping[str, Any]:
    units = _an_object(found)
    for value in units.values():
        if type(value) is not int and type(value) is not float:
            raise TypeError(f"{type(value).__name__} where a number is expected")
    return units


class JsonObject(JsonValue):
    """A JSON object; any other stored value is unreadable."""

    cache_ok = True
    shape = staticmethod(_an_object)


class Units(JsonObject):
    """Units by pool, as a JSON object of numbers."""

    cache_ok = True
    shape = staticmethod(_numbers)


class Strings(JsonValue):
    """A tuple of strings, as a JSON list."""

    cache_ok = True

    def written(self, dialect: Dialect) -> Converter | None:
        strings: Converter = list if is_postgres(dialect) else strings_text
        return lambda value: None if value is None else strings(value)

    def read(self, dialect: Dialect) -> Converter | None:
        return _tuple_of_text if is_postgres(dialect) else lambda text: _strings("[]" if text is None else text)


class Retrying(JsonValue):
    """A retry policy, as a JSON object with durations in seconds."""

    cache_ok = True

    def written(self, dialect: Dialect) -> Converter | None:
        policy: Converter = policy_to_json if is_postgres(dialect) else policy_text
        return lambda value: None if value is None else policy(value)

    def read(self, dialect: Dialect) -> Converter | None:
        policy = policy_from_json if is_postgres(dialect) else _policy
        return lambda value: None if value is None else policy(value)


@lru_cache(maxsize=1000)
def _strings(text: str) -> tuple[str, ...]:
    return _tuple_of_text(decode(text))


def _tuple_of_text(found: Any) -> tuple[str, ...]:
    if found is None:
        return ()
    if not isinstance(found, list):
        raise TypeError(f"{type(found).__name__} where a list is expected")
    for word in found:
        if not isinstance(word, str):
            raise TypeError(f"{type(word).__name__} where text is expected")
    return tuple(found)


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
    if type(value["max_attempts"]) is not int:
        raise TypeError(f"{type(value['max_attempts']).__name__} where a number of attempts is expected")
    return RetryPolicy(
        max_attempts=value["max_attempts"],
        backoff=timedelta(seconds=value["backoff"]),
        max_backoff=timedelta(seconds=value["max_backoff"]),
    )


def repeat_policy_text(policy: RepeatPolicy) -> str:
    return encode(repeat_policy_to_json(policy))


def _repeat_policy_json(policy: RepeatPolicy | None) -> dict[str, Json] | None:
    return None if policy is None else repeat_policy_to_json(policy)


def repeat_policy_to_json(policy: RepeatPolicy) -> dict[str, Json]:
    return {name: _plain(part) for name, part in policy.parts().items()}


def _plain(part: Any) -> Json:
    if isinstance(part, timedelta):
        return part.total_seconds()
    return [day.isoformat() for day in part] if isinstance(part, tuple) else part


def _span(seconds: float | None) -> timedelta | None:
    return None if seconds is None else timedelta(seconds=seconds)


def repeat_policy_from_json(value: Mapping[str, Any]) -> RepeatPolicy:
    if not isinstance(value, Mapping):
        raise TypeError("a policy of recurrence is an object")
    return RepeatPolicy(
        overlap=Overlap(value.get("overlap", Overlap.SKIP)),
        catchup_window=_span(value.get("catchup_window")),
        coalesce=Coalesce(value["coalesce"]) if "coalesce" in value else None,
        jitter=_span(value.get("jitter")),
        pause_after=value.get("pause_after"),
        leave_out=tuple(date.fromisoformat(day) for day in value.get("except", ())),
    )


class RepeatPolicyType(JsonValue):
    """The behaviour of a recurring task, as a JSON object."""

    cache_ok = True

    shape = staticmethod(repeat_policy_from_json)

    def written(self, dialect: Dialect) -> Converter | None:
        return one_after_other(_repeat_policy_json, super().written(dialect))

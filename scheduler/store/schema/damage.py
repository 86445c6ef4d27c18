"""Damaged rows: what stands in place of a value that cannot be read, and the rest of its row.

A batch is read by the strict column types, which raise for a damaged value. It is then read again by `Lenient` types,
which give an `DamagedValue` in place of each damaged value and all others as they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from duetime.scheduler.events import EventKind
from duetime.scheduler.rules.time.durations import EPOCH
from duetime.scheduler.store.schema.json_types import JsonObject, JsonValue, Retrying, Strings
from duetime.scheduler.store.schema.types import ClosedSet, Converter, Instant, Plain, Truth, WholeNumber, is_postgres
from duetime.scheduler.store.schema.values import decode, storable
from duetime.scheduler.task import DeadlineType, DeliveryState, Notify, Penalty, RetryPolicy, State, Tier
from sqlalchemy import Column, Dialect, Text, TypeDecorator, cast, type_coerce
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.types import TypeEngine

READ_ERRORS = (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""Exceptions from a value of an unknown word, shape, type or size."""

MAX_STORED_CHARS = 2_000
"""Characters of a damaged value that are kept for whoever wants to restore it."""

_MAX_WHY_CHARS = 60
LONG_AGO = EPOCH
"""In place of an instant that cannot be read."""


@dataclass(frozen=True, slots=True)
class DamagedValue:
    """A value that cannot be read: why, and the beginning of what is stored."""

    why: str
    stored: str


class Lenient(TypeDecorator[Any]):
    """Reads like another type, but returns an `DamagedValue` where that one raises."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: TypeEngine[Any]) -> None:
        super().__init__()
        self.kind = kind

    def result_processor(self, dialect: Dialect, coltype: object) -> Converter | None:
        read = _reader(self.kind, dialect, coltype)

        def leniently(value: Any) -> Any:
            try:
                return read(value) if read else value
            except READ_ERRORS as problem:
                return DamagedValue(_why(problem), _as_text(value))

        return leniently


def _reader(kind: TypeEngine[Any], dialect: Dialect, coltype: object) -> Converter | None:
    if is_postgres(dialect) and isinstance(kind, Instant | JsonValue):
        parse: Converter = datetime.fromisoformat if isinstance(kind, Instant) else decode
        convert = kind.read(dialect)
        return lambda text: None if text is None else convert(parse(text)) if convert else parse(text)
    return kind.dialect_impl(dialect).result_processor(dialect, coltype)


def lenient(column: ColumnElement[Any], dialect: Dialect) -> ColumnElement[Any]:
    """Return the column to be read leniently, under its name; on PostgreSQL the driver must not parse it before."""
    kind, name = column.type, getattr(column, "name", None)
    parsed_by_driver = is_postgres(dialect) and isinstance(kind, Instant | JsonValue)
    coerced = type_coerce(cast(column, Text) if parsed_by_driver else column, Lenient(kind))
    return coerced.label(name) if isinstance(name, str) else coerced


def _why(problem: Exception) -> str:
    if isinstance(problem, json.JSONDecodeError | RecursionError):
        return "it is not JSON"
    if isinstance(problem, UnicodeError):
        return "it is not text"
    if isinstance(problem, KeyError):
        return f"{repr(problem.args[0])[:_MAX_WHY_CHARS]} is unknown"
    return " ".join(str(problem).split())[:_MAX_WHY_CHARS]


def _as_text(value: Any) -> str:
    text = value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    return storable(text[:MAX_STORED_CHARS])


def is_damaged(row: Sequence[Any]) -> bool:
    return any(type(value) is DamagedValue for value in row)


def next_time(earliest: datetime | DamagedValue | None) -> datetime | None:
    """Return the earliest of some times: one that cannot be read is before all others, or after them."""
    if not isinstance(earliest, DamagedValue):
        return earliest
    return LONG_AGO if earliest.stored.startswith("-") else None


@dataclass(frozen=True, slots=True)
class Salvaged:
    """The values of a damaged row, with neutral ones in place of those that cannot be read; and these, by column."""

    values: Sequence[Any]
    unread: Mapping[str, DamagedValue]

    def sentences(self, of: str = "") -> tuple[str, ...]:
        """Return what cannot be read, and why, each in a few words."""
        return tuple(f"its {of}{name} cannot be read ({unread.why})" for name, unread in self.unread.items())


def salvaged(row: Sequence[Any], columns: Sequence[Column[Any]]) -> Salvaged:
    """Return what can be read of a row that has these columns, in their order."""
    stored = {column.name: value for column, value in zip(columns, row, strict=True)}
    unread = {name: value for name, value in stored.items() if type(value) is DamagedValue}
    whole = {name: value for name, value in stored.items() if name not in unread}
    neutral = {column.name: _neutral(column, whole) for column in columns if column.name in unread}
    return Salvaged([neutral.get(name, value) for name, value in stored.items()], unread)


_OF_NAME: Mapping[str, Any] = {
    "title": "(damaged title)",
    "text": "(damaged text)",
    "owner": "local",
    "user": "local",
    "timezone": "UTC",
    "current": True,
}
_OF_TYPE: Mapping[type, Any] = {
    JsonObject: {},
    Plain: "",
    WholeNumber: 1,
    Truth: False,
    Retrying: RetryPolicy(max_attempts=1),
    Strings: (),
}
_OF_WORDS: Mapping[type[StrEnum], StrEnum] = {
    EventKind: EventKind.DAMAGED,
    DeliveryState: DeliveryState.FAILED,
    Tier: Tier.NORMAL,
    DeadlineType: DeadlineType.SOFT,
    Penalty: Penalty.NONE,
    Notify: Notify.ALWAYS,
}
_COUNTS_FROM_0 = frozenset({"attempt", "attempts", "failures", "crashes", "missed"})
_TIMES = ("scheduled_for", "wake_at", "started_at", "ended_at", "anchor", "created_at", "updated_at", "at")


def _neutral(column: Column[Any], whole: Mapping[str, Any]) -> Any:
    """Return a value in place of a damaged one, from what else can be read of its row."""
    if column.nullable or column.name in _OF_NAME:
        return _OF_NAME.get(column.name)
    if isinstance(column.type, ClosedSet):
        return _word(column, column.type.words, whole)
    if isinstance(column.type, Instant):
        return next((whole[name] for name in _TIMES if whole.get(name) is not None), LONG_AGO)
    if column.name in _COUNTS_FROM_0:
        return 0
    return next(value for kind, value in _OF_TYPE.items() if isinstance(column.type, kind))


def _word(column: Column[Any], kind: type[StrEnum], whole: Mapping[str, Any]) -> Any:
    """Return the likeliest word: for the state of a run by its times, else what a new row has."""
    if kind is not State:
        return _OF_WORDS[kind]
    if column.table.name == "inbox" or whole.get("ended_at"):
        return State.FAILED
    return State.READY if whole.get("wake_at", ...) is None else State.SCHEDULED

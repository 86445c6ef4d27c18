"""Rows as JSON and back: the same on both databases, with times in ISO 8601 and lengths in microseconds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.retention import RetentionKind
from duetime.scheduler.rules.sanitize import check_json
from duetime.scheduler.rules.time.durations import MICROSECOND
from duetime.scheduler.store.retention.row_conditions import TABLES
from duetime.scheduler.store.schema.json_types import (
    JsonObject,
    JsonValue,
    RepeatPolicyType,
    Retrying,
    Strings,
    Units,
    policy_from_json,
    policy_to_json,
    repeat_policy_from_json,
    repeat_policy_to_json,
)
from duetime.scheduler.store.schema.tables.approvals import approvals
from duetime.scheduler.store.schema.tables.chains import chain_steps, chains, dependencies, spawned_tasks
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.follow_ups import follow_ups
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.store.schema.types import (
    MAX_INTERVAL_US,
    ClosedSet,
    Instant,
    Interval,
    Plain,
    Truth,
    WholeNumber,
)
from duetime.scheduler.store.schema.values import check_aware, check_year, storable
from duetime.scheduler.task import Json
from sqlalchemy import Column, Double, Table
from sqlalchemy.types import BigInteger, Integer, TypeEngine

_OF_TASKS = (approvals, chains, chain_steps, spawned_tasks, dependencies, signal_waits, follow_ups)
"""Tables of which no rule speaks, whose rows go with their tasks."""

ARCHIVED_TABLES: dict[str, Table] = {
    table.name: table for table in (*(TABLES[kind] for kind in RetentionKind), *_OF_TASKS)
}
"""The tables of an archive, by name."""

MAX_ARCHIVED_JSON_BYTES = 4 * 1024 * 1024
MAX_ARCHIVED_JSON_LEVELS = 64
"""An event holds a payload before and after a change: more than a payload may have itself."""

_LEFT_OUT = frozenset({events.c.tx})
"""Columns that mean something to the running database alone."""

TypedRow = dict[str, Any]


def columns(table: Table) -> list[Column[Any]]:
    """Return the columns of a table that an archive has."""
    return [column for column in table.columns if column.computed is None and column not in _LEFT_OUT]


def to_json(row: Mapping[str, Any], table: Table) -> dict[str, Json]:
    """Return a row as JSON."""
    return {column.name: _encoded(column.type, row[column.name]) for column in columns(table)}


def _encoded(kind: TypeEngine[Any], value: Any) -> Json:
    if value is None:
        return None
    if isinstance(kind, Instant):
        return str(value.isoformat())
    if isinstance(kind, Interval):
        return int(value // MICROSECOND)
    if isinstance(kind, Retrying):
        return policy_to_json(value)
    if isinstance(kind, RepeatPolicyType):
        return repeat_policy_to_json(value)
    plain: Json = list(value) if isinstance(kind, Strings) else value
    return plain


def from_json(found: Mapping[str, Json], table: Table) -> TypedRow:
    """Return the row that `to_json` wrote. Raises ValueError for anything else, and names the column."""
    known = {column.name: column for column in columns(table)}
    unknown = next((name for name in found if name not in known), None)
    if unknown is not None:
        raise ValueError(f"{table.name} has no column {unknown!r}; a newer Duetime wrote the file")
    missing = next((name for name, column in known.items() if name not in found and _needed(column)), None)
    if missing is not None:
        raise ValueError(f"{table.name}.{missing} is missing")
    return {name: _decoded(known[name], value) for name, value in found.items()}


def _needed(column: Column[Any]) -> bool:
    return not column.nullable and column.server_default is None


def _decoded(column: Column[Any], value: Json) -> Any:
    if value is None:
        if not column.nullable:
            raise ValueError(f"{column.table.name}.{column.name} is empty")
        return None
    try:
        return next(read for kind, read in _READERS if isinstance(column.type, kind))(column.type, value)
    except (KeyError, TypeError, ValueError, OverflowError, InvalidArgument) as error:
        raise ValueError(f"{column.table.name}.{column.name} cannot be read: {str(error)[:80]}") from None


def _instant(_kind: Any, value: Any) -> datetime:
    found = datetime.fromisoformat(value)
    check_aware(found)
    return check_year(found.astimezone(UTC))


def _interval(_kind: Any, value: Any) -> timedelta:
    return timedelta(microseconds=_whole(MAX_INTERVAL_US)(None, value))


def _text(_kind: Any, value: Any) -> str:
    found: str = _exactly(str)(None, value)
    if storable(found) != found:
        raise ValueError("it has a character that no database stores")
    return found


def _strings(_kind: Any, value: Any) -> tuple[str, ...]:
    return tuple(_text(None, each) for each in _exactly(list)(None, value))


def _json(_kind: Any, value: Any) -> Json:
    check_json("value", value, max_bytes=MAX_ARCHIVED_JSON_BYTES, max_depth=MAX_ARCHIVED_JSON_LEVELS)
    checked: Json = value
    return checked


def _object(_kind: Any, value: Any) -> Json:
    return _json(None, _exactly(dict)(None, value))


def _units(_kind: Any, value: Any) -> Json:
    for units in _exactly(dict)(None, value).values():
        if type(units) is not int and type(units) is not float:
            raise TypeError(f"{type(units).__name__} where a number is expected")
    return _json(None, value)


def _number(_kind: Any, value: Any) -> float:
    found = float(value)
    if isinstance(value, str | bool) or not math.isfinite(found):
        raise ValueError(f"{str(value)[:20]} is not a number")
    return found


def _whole(end: int) -> Callable[[Any, Any], int]:
    """Return what reads a whole number from -end up to below end."""

    def checked(_kind: Any, value: Any) -> int:
        found: int = _exactly(int)(None, value)
        if not -end <= found < end:
            raise ValueError("the number is too large")
        return found

    return checked


def _exactly(expected: type) -> Callable[[Any, Any], Any]:
    def checked(_kind: Any, value: Any) -> Any:
        if type(value) is not expected:
            raise TypeError(f"{type(value).__name__} where {expected.__name__} is expected")
        return value

    return checked


_READERS: tuple[tuple[type[Any], Callable[[Any, Any], Any]], ...] = (
    (Instant, _instant),
    (Interval, _interval),
    (ClosedSet, lambda kind, value: kind.words(value)),
    (Retrying, lambda _kind, value: policy_from_json(value)),
    (RepeatPolicyType, lambda _kind, value: repeat_policy_from_json(value)),
    (Strings, _strings),
    (Units, _units),
    (JsonObject, _object),
    (JsonValue, _json),
    (Truth, _exactly(bool)),
    (WholeNumber, _whole(2**31)),
    (BigInteger, _whole(2**63)),
    (Integer, _whole(2**31)),
    (Double, _number),
    (Plain, _text),
)

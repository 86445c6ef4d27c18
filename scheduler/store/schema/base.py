"""Common base of all tables: Duetime's column types and the naming of constraints.

A table is read from the annotations of its class, as SQLAlchemy's mapper does it. The mapper itself takes an eighth of
a short command to load, and nothing here is mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from inspect import get_annotations
from types import NoneType
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

from duetime.scheduler.audit.entry import AuditKind
from duetime.scheduler.events import EventKind
from duetime.scheduler.store.schema.json_types import JsonObject, RepeatPolicyType, Retrying, Strings, Units
from duetime.scheduler.store.schema.types import ClosedSet, Instant, Interval, Plain, Truth, WholeNumber, Words
from duetime.scheduler.task import DeadlineType, DeliveryState, Notify, Penalty, RepeatPolicy, RetryPolicy, State, Tier
from sqlalchemy import BigInteger, Column, Double, Index, Integer, LargeBinary, MetaData, Table, text
from sqlalchemy.types import TypeEngine

Said = Annotated[str, "words of people or handlers"]

Serial = BigInteger().with_variant(Integer(), "sqlite")

_TYPES: dict[Any, TypeEngine[Any]] = {
    datetime: Instant(),
    timedelta: Interval(),
    str: Plain(),
    int: WholeNumber(),
    bool: Truth(),
    float: Double(),
    bytes: LargeBinary(),
    Said: Words(),
    State: ClosedSet(State),
    EventKind: ClosedSet(EventKind),
    AuditKind: ClosedSet(AuditKind),
    DeliveryState: ClosedSet(DeliveryState),
    Tier: ClosedSet(Tier),
    DeadlineType: ClosedSet(DeadlineType),
    Penalty: ClosedSet(Penalty),
    Notify: ClosedSet(Notify),
    Mapping[str, int]: Units(),
    Mapping[str, Any]: JsonObject(),
    RetryPolicy: Retrying(),
    RepeatPolicy: RepeatPolicyType(),
    tuple[str, ...]: Strings(),
}


class Base:
    """A class of this base becomes a table: each annotation is a column, which `column` says more about."""

    metadata: ClassVar[MetaData] = MetaData(
        naming_convention={
            "pk": "%(table_name)s_pk",
            "fk": "%(table_name)s_%(column_0_name)s_fk",
            "uq": "%(table_name)s_%(column_0_name)s_key",
            "ck": "%(table_name)s_%(constraint_name)s",
        }
    )
    __tablename__: ClassVar[str]
    __table_args__: ClassVar[tuple[Any, ...]] = ()
    __table__: ClassVar[Table]

    def __init_subclass__(cls) -> None:
        hints = get_type_hints(cls, include_extras=True)
        columns = [_column(name, hints[name], cls.__dict__.get(name)) for name in get_annotations(cls)]
        parts = [part for part in cls.__table_args__ if not isinstance(part, dict)]
        options = {name: value for part in cls.__table_args__ if isinstance(part, dict) for name, value in part.items()}
        cls.__table__ = Table(cls.__tablename__, cls.metadata, *columns, *parts, **options)


def column(*parts: Any, **options: Any) -> Any:
    """Say more about a column: its type where the annotation does not decide it, its key, its default."""
    return parts, options


def _column(name: str, hint: Any, definition: Any) -> Column[Any]:
    parts, options = definition or ((), {})
    members = get_args(hint) if NoneType in get_args(hint) else (hint,)
    kind = next(member for member in members if member is not NoneType)
    typed = () if any(isinstance(part, TypeEngine) for part in parts) else (_TYPES[kind],)
    return Column(name, *typed, *parts, nullable=len(members) > 1, **options)


def partial(name: str, *columns: Any, where: str, unique: bool = False) -> Index:
    """Return an index over the rows for which `where` holds."""
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


def table(row: type[Base]) -> Table:
    return row.__table__

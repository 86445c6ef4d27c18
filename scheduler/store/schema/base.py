"""Common base of all tables: Duetime's column types and the naming of constraints."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar

from duetime.scheduler.events import EventKind
from duetime.scheduler.store.schema.json_types import JsonObject, Retrying, Strings, Units
from duetime.scheduler.store.schema.types import ClosedSet, Instant, Interval, Plain, Truth, WholeNumber, Words
from duetime.scheduler.task import DeadlineType, DeliveryState, Penalty, RetryPolicy, State, Tier
from sqlalchemy import BigInteger, Double, Index, Integer, MetaData, Table, text
from sqlalchemy.orm import DeclarativeBase

Said = Annotated[str, "words of people or handlers"]

Serial = BigInteger().with_variant(Integer(), "sqlite")


class Base(DeclarativeBase):
    """Common column types and constraint names."""

    metadata = MetaData(
        naming_convention={
            "pk": "%(table_name)s_pk",
            "fk": "%(table_name)s_%(column_0_name)s_fk",
            "uq": "%(table_name)s_%(column_0_name)s_key",
            "ck": "%(table_name)s_%(constraint_name)s",
        }
    )
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: Instant(),
        timedelta: Interval(),
        str: Plain(),
        int: WholeNumber(),
        bool: Truth(),
        float: Double(),
        Said: Words(),
        State: ClosedSet(State),
        EventKind: ClosedSet(EventKind),
        DeliveryState: ClosedSet(DeliveryState),
        Tier: ClosedSet(Tier),
        DeadlineType: ClosedSet(DeadlineType),
        Penalty: ClosedSet(Penalty),
        Mapping[str, int]: Units(),
        Mapping[str, Any]: JsonObject(),
        RetryPolicy: Retrying(),
        tuple[str, ...]: Strings(),
    }


def partial(name: str, *columns: Any, where: str, unique: bool = False) -> Index:
    """Return an index over the rows for which `where` holds."""
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


def table(row: type[Base]) -> Table:
    found = row.__table__
    assert isinstance(found, Table)
    return found

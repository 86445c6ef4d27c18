"""Tables of alerts: their phases, the notices that channels got, and whose turn it is to look."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.base import Base, column, table


class AlertRow(Base):
    """An alert of a rule: `key` is the tier, pool or host that it is about."""

    __tablename__ = "alerts"
    __table_args__ = ({"sqlite_with_rowid": False},)

    rule: str = column(primary_key=True)
    key: str = column(primary_key=True)
    phase: str
    since: datetime
    value: float


class NoticeRow(Base):
    """The last notice of an alert to a channel; it is tried again from `try_at` on."""

    __tablename__ = "alert_notices"
    __table_args__ = ({"sqlite_with_rowid": False},)

    rule: str = column(primary_key=True)
    key: str = column(primary_key=True)
    channel: str = column(primary_key=True)
    told: str | None
    told_at: datetime | None
    tries: int
    try_at: datetime | None


class TurnRow(Base):
    """Work that one process of an installation does at a time: the next turn is not before `next_at`."""

    __tablename__ = "turns"
    __table_args__ = ({"sqlite_with_rowid": False},)

    name: str = column(primary_key=True)
    next_at: datetime


alerts = table(AlertRow)
alert_notices = table(NoticeRow)
turns = table(TurnRow)

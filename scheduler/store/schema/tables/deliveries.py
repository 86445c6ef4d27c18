"""The tables of notifications: the inbox, deliveries, and the hours without any."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.base import Base, Said, column, partial, table
from duetime.scheduler.task import DeliveryState, State
from sqlalchemy import ForeignKey, Index, false


class InboxRow(Base):
    """An outcome in a user's inbox. Of `quiet` ones nobody was notified."""

    __tablename__ = "inbox"
    __table_args__ = (
        Index("inbox_by_time", "tenant", "user", "created_at", "id"),
        partial("inbox_unread", "tenant", "user", "created_at", "id", where="read_at IS NULL"),
        partial("inbox_quiet", "tenant", "user", "created_at", where="quiet"),
    )

    id: str = column(primary_key=True)
    tenant: str
    user: str
    task_id: str
    run_id: str = column(ForeignKey("runs.id"), unique=True)
    title: Said
    text: Said
    state: State
    created_at: datetime
    read_at: datetime | None
    mentioned_at: datetime | None  # of versions before 0.1.0: no statement names it
    quiet: bool = column(server_default=false())


class DeliveryRow(Base):
    """Delivery of one outcome to a user through one channel; its inbox message must exist.

    It is held by quiet hours while `held_until` is `next_at`: a lease moves the latter.
    """

    __tablename__ = "deliveries"
    __table_args__ = (
        Index("deliveries_by_run", "run_id", "channel", unique=True),
        partial("deliveries_due", "next_at", where="next_at IS NOT NULL"),
    )

    id: str = column(primary_key=True)
    tenant: str
    task_id: str
    run_id: str = column(ForeignKey("inbox.run_id"))
    channel: str
    state: DeliveryState
    attempts: int
    next_at: datetime | None
    delivered_at: datetime | None
    error: Said | None
    traceparent: str | None
    tracestate: str | None
    held_until: datetime | None


class QuietHoursRow(Base):
    """The quiet hours of a user: two times of day with a zone, or `none`."""

    __tablename__ = "quiet_hours"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tenant: str = column(primary_key=True)
    user: str = column(primary_key=True)
    hours: str
    set_at: datetime
    set_by: Said


deliveries = table(DeliveryRow)
inbox = table(InboxRow)
quiet_hours = table(QuietHoursRow)

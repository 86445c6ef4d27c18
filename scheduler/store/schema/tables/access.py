"""Tables of access: the secrets that runs may use, and the admin sessions that have ended early."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.base import Base, Said, column, table
from sqlalchemy import Index


class SecretRow(Base):
    """A secret of a tenant: `token` is its value, encrypted by a key that the database does not have."""

    __tablename__ = "secrets"
    __table_args__ = ({"sqlite_with_rowid": False},)

    tenant: str = column(primary_key=True)
    name: str = column(primary_key=True)
    token: str
    hosts: tuple[str, ...]
    set_at: datetime
    set_by: Said
    last_used_at: datetime | None


class EndedSessionRow(Base):
    """A session of the admin page that was logged out; at `ends_at` its cookie would have ended by itself."""

    __tablename__ = "ended_sessions"
    __table_args__ = (Index("ended_sessions_by_end", "ends_at"), {"sqlite_with_rowid": False})

    session_id: str = column(primary_key=True)
    ends_at: datetime


secrets = table(SecretRow)
ended_sessions = table(EndedSessionRow)

"""Tables of access: the secrets that runs may use."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.store.schema.base import Base, Said, column, table


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


secrets = table(SecretRow)

"""Secret keys that all processes of an installation share, kept in its database: made at first use, then read once."""

from __future__ import annotations

import secrets

from duetime.scheduler.errors import StoreUnwritable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.pools import server_keys
from sqlalchemy import Connection, select

_KEY_BYTES = 32


class ServerKey:
    """One secret key, by its name."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._key = b""
        self._made = secrets.token_hex(_KEY_BYTES)

    def get(self) -> bytes:
        """Return the key, as this process has read it."""
        return self._key or self.read()

    def read(self) -> bytes:
        """Read the key again; of processes that make it at once, all get the first one.

        While the disk is full, the key is this process's own until it can be stored: who only reads is not refused.
        """
        found = self._database.look(self._found)
        if found is None:
            try:
                self._database.write(self._store)
            except StoreUnwritable:
                return bytes.fromhex(self._made)
            found = self._database.look(self._found)
        assert found is not None
        self._key = bytes.fromhex(found)
        return self._key

    def _store(self, connection: Connection) -> None:
        made = {"name": self._name, "key": self._made}
        connection.execute(dialect_of(connection).insert(server_keys).on_conflict_do_nothing(), made)

    def _found(self, connection: Connection) -> str | None:
        stored = select(server_keys.c.key).where(server_keys.c.name == self._name)
        found: str | None = connection.execute(stored).scalar()
        return found

"""Secret keys that all processes of an installation share, kept in its database, and read once by each process.

The keys of places that clients keep are made with the schema: a backup from before their first use has them too. Others
are made at first use.
"""

from __future__ import annotations

import secrets
from typing import Final

from duetime.scheduler.errors import StoreUnwritable
from duetime.scheduler.store.database.database import Database
from duetime.scheduler.store.database.dialects import dialect_of
from duetime.scheduler.store.schema.tables.pools import server_keys
from sqlalchemy import Connection, select

CURSOR_KEY: Final = "cursors"
PLACE_KEY: Final = "hidden_numbers"

_KEY_BYTES = 32


def make_keys(connection: Connection) -> None:
    """Make the keys of places that clients keep, where there are none."""
    for name in (CURSOR_KEY, PLACE_KEY):
        _store(connection, name, _new_key())


class ServerKey:
    """One secret key, by its name."""

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._key = b""
        self._made = _new_key()

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
                self._database.write(lambda connection: _store(connection, self._name, self._made))
            except StoreUnwritable:
                return bytes.fromhex(self._made)
            found = self._database.look(self._found)
        assert found is not None
        self._key = bytes.fromhex(found)
        return self._key

    def _found(self, connection: Connection) -> str | None:
        stored = select(server_keys.c.key).where(server_keys.c.name == self._name)
        found: str | None = connection.execute(stored).scalar()
        return found


def _new_key() -> str:
    return secrets.token_hex(_KEY_BYTES)


def _store(connection: Connection, name: str, key: str) -> None:
    """Store a key, unless there is one of this name."""
    made = {"name": name, "key": key}
    connection.execute(dialect_of(connection).insert(server_keys).on_conflict_do_nothing(), made)

"""Runs migrations on an open connection, inside its transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def run(connection: Connection, target: str, reached: Callable[[str], None] = lambda _version: None) -> None:
    """Upgrade to the version `target`; the caller holds the lock and commits. `reached` is called with each version."""
    made = configuration(connection)
    made.attributes["reached"] = reached
    command.upgrade(made, target)


def configuration(connection: Connection) -> Config:
    """Return Alembic's settings without a file of them: the scripts lie next to this module, also in a wheel."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made

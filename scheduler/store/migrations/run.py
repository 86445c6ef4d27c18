"""Runs migrations on an open connection, inside its transaction."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def run(connection: Connection, target: str) -> None:
    """Upgrade to the version `target`; the caller holds the lock and commits."""
    command.upgrade(configuration(connection), target)


def configuration(connection: Connection) -> Config:
    """Return Alembic's settings without a file of them: the scripts lie beside this module, also in a wheel."""
    made = Config()
    made.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    made.attributes["connection"] = connection
    return made

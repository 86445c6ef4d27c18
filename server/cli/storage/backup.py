"""The verb `backup`: a copy of the database while others use it."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.server.cli import output
from duetime.server.session import cli_caller, session

ON_A_SERVER = (
    "The database is on a PostgreSQL server, which has a command of its own: "
    "`pg_dump --format=custom --file=duetime.dump <database_url>`. docs/operations.md says how to restore it."
)


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the file to write, which must not exist")],
) -> None:
    """Copy the SQLite database into a file, while everything else goes on."""
    settings = session(context).settings()
    if file.exists() or not file.absolute().parent.is_dir():
        problem = "exists already" if file.exists() else "lies in a directory that does not exist"
        raise InvalidArgument("file", f"{file} {problem}", example="duetime backup /mnt/backup/duetime.db")
    store: Any = import_module("duetime.scheduler.store.store")
    if not store.back_up(settings.database_url, file):
        raise Refused(ON_A_SERVER)
    size = file.stat().st_size
    with session(context).store() as opened:
        opened.audit.record(AuditEntry.by(cli_caller(), AuditKind.BACKUP_MADE, file.name, detail={"bytes": size}))
    output.say(f"Copied the database to {file} ({size / 1e6:,.1f} MB).")

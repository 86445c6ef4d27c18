"""The verb `backup`: a copy of the database while others use it."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.server.cli import output
from duetime.server.cli.formats.shared_options import AuditReason
from duetime.server.session import cli_caller, session

ON_A_SERVER = (
    "The database is on a PostgreSQL server, which has a command of its own: "
    "`pg_dump --format=custom --file=duetime.dump <database_url>`. docs/operations.md says how to restore it."
)


def backup(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the file to write, which must not exist")],
    *,
    reason: AuditReason = None,
) -> None:
    """Copy the SQLite database into a file, while everything else continues."""
    settings = session(context).settings()
    if file.exists() or not file.absolute().parent.is_dir():
        problem = "exists already" if file.exists() else "lies in a directory that does not exist"
        raise InvalidArgument("file", f"{file} {problem}", example="duetime backup /mnt/backup/duetime.db")
    if not settings.database_url.startswith("sqlite"):
        raise Refused(ON_A_SERVER)
    store: Any = import_module("duetime.scheduler.store.store")
    entry = partial(AuditEntry.by, cli_caller(), subject=file.name, reason=reason)
    with session(context).store() as opened:
        opened.audit.record(entry(AuditKind.BACKUP_BEGUN))
        store.back_up(settings.database_url, file)
        size = file.stat().st_size
        opened.audit.record(entry(AuditKind.BACKUP_MADE, detail={"bytes": size}))
    output.say(f"Copied the database to {file} ({size / 1e6:,.1f} MB).")

"""The verb `import`: stores files of the archive again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from duetime.scheduler.errors import Refused
from duetime.scheduler.store import Store
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.session import session


def import_(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="files of the archive")],
    *,
    tenant: Annotated[str | None, typer.Option(help="refuse a file that has rows of another tenant")] = None,
    as_json: AsJson = False,
) -> None:
    """Store what retention archived and deleted again; what is there already stays as it is."""
    stored, known = Counter[str](), 0
    with session(context).store(create=True) as store:
        for path in sorted(files, key=_parents_first):
            of_file, there = _imported(store, path, tenant)
            stored, known = stored + of_file, known + there
    if as_json:
        output.as_json({"schema": "duetime.import/1", "stored": dict(stored), "there": known})
        return
    if stored:
        output.table(("TABLE", "STORED"), ((name, f"{count:,}") for name, count in stored.items()))
        output.note("A rule of retention deletes them again at its next sweep, unless you change it.")
    output.say(f"{known:,} rows were there already." if known or not stored else "None was there already.")


def _imported(store: Store, path: Path, tenant: str | None) -> tuple[Counter[str], int]:
    try:
        return store.retention.import_file(path, tenant=tenant)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}. Nothing of it was stored.") from None


def _parents_first(path: Path) -> tuple[bool, bool, bool, str]:
    """Order files as their rows depend on each other: tasks, then runs, then messages, then all others."""
    kind = path.name.partition("-")[0]
    return kind != "tasks", kind != "runs", kind != "inbox", str(path)

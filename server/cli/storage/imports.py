"""The verb `import`: stores files of the archive again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from duetime.scheduler.errors import DuetimeError, Refused
from duetime.scheduler.store import Store
from duetime.server.cli import output
from duetime.server.cli.formats.shared_options import AuditReason
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_caller, session
from duetime.tools.admin.retention_rows import import_entry, import_json


def import_(
    context: typer.Context,
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="files of the archive")],
    *,
    tenant: Annotated[str | None, typer.Option(help="refuse a file that has rows of another tenant")] = None,
    reason: AuditReason = None,
    as_json: AsJson = False,
) -> None:
    """Store what retention archived and deleted again; what is there already stays as it is."""
    stored, known = Counter[str](), 0
    with session(context).store(create=True) as store, in_turn(files) as paths:
        for path in paths:
            of_file, there = _imported(store, path, tenant, reason)
            stored, known = stored + of_file, known + there
    show_import(import_json(stored, known), as_json=as_json)


def show_import(found: Mapping[str, Any], *, as_json: bool) -> None:
    """Write how many rows were stored, and how many were there already."""
    if as_json:
        output.as_json(dict(found))
        return
    stored, known = found["stored"], found["there"]
    if stored:
        output.table(("TABLE", "STORED"), ((name, f"{count:,}") for name, count in stored.items()))
        output.note("The next sweep deletes those that a rule of retention covers. Unread messages keep their task.")
    output.say(f"{known:,} rows were there already." if known or not stored else "None was there already.")


def _imported(store: Store, path: Path, tenant: str | None, reason: str | None) -> tuple[Counter[str], int]:
    act = partial(import_entry, path.name, by=cli_caller(), reason=reason)
    try:
        return store.retention.import_file(path, tenant=tenant, act=act)
    except OSError as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: OSError) -> Refused:
    """Return the refusal of a file that cannot be read."""
    return Refused(f"{path} cannot be read: {error.strerror}. Nothing of it was stored.")


@contextmanager
def in_turn(files: Iterable[Path]) -> Iterator[Iterator[Path]]:
    """Give files in the order in which they are stored: what others belong to first.

    When one is refused, say how many were stored before it.
    """
    ordered, begun = sorted(files, key=_parents_first), list[Path]()

    def each() -> Iterator[Path]:
        for path in ordered:
            begun.append(path)
            yield path

    try:
        yield each()
    except DuetimeError:
        if len(begun) > 1:
            output.note(
                f"Stored {len(begun) - 1} of {len(ordered)} files before this one, the last of them {begun[-2]}."
            )
        raise


def _parents_first(path: Path) -> tuple[bool, bool, bool, str]:
    """Order files as their rows depend on each other: tasks, then runs, then messages, then all others."""
    kind = path.name.partition("-")[0]
    return kind != "tasks", kind != "runs", kind != "inbox", str(path)

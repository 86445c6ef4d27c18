"""Completion of values in a shell, from the local file alone, and the arguments and options that have it.

It runs at each press of a key. It reads an SQLite file that is there, without opening the store, and says nothing where
that does not succeed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Annotated
from urllib.parse import quote

import typer
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.request import AfterFailure
from duetime.scheduler.task import State
from duetime.server.session import Session

MAX_SHELL_COMPLETIONS = 50
LOCK_PATIENCE_S = 0.2
BUILT_IN_ACTIONS = ("reminder", "webhook", "watch")

_IDS = "SELECT id, title FROM tasks WHERE tenant = ? AND substr(id, 1, length(?)) = ? ORDER BY created_at DESC LIMIT ?"
_UNREAD = (
    "SELECT DISTINCT task_id, title FROM inbox WHERE tenant = ? AND read_at IS NULL"
    " AND substr(task_id, 1, length(?)) = ? LIMIT ?"
)
_ACTIONS = "SELECT DISTINCT action FROM tasks WHERE tenant = ? AND substr(action, 1, length(?)) = ? LIMIT ?"
_LABELS = "SELECT DISTINCT label FROM task_labels WHERE tenant = ? AND substr(label, 1, length(?)) = ? LIMIT ?"
_POOLS = "SELECT name FROM pools WHERE ? <> '' AND spec IS NOT NULL AND substr(name, 1, length(?)) = ? LIMIT ?"

Completions = list[tuple[str, str]]
"""The values, each with the text that a shell may show for it."""


def ids(context: typer.Context, incomplete: str) -> Completions:
    """Complete the id of a task, the newest first, each with its title."""
    return [(str(name), str(title)) for name, title in _rows(context, _IDS, incomplete)]


def unread(context: typer.Context, incomplete: str) -> Completions:
    """Complete the id of a task with an unread outcome, each with its title."""
    return [(str(name), str(title)) for name, title in _rows(context, _UNREAD, incomplete)]


def states(incomplete: str) -> Completions:
    """Complete a state, `open` or `ended`."""
    return _beginning(("open", "ended", *State), incomplete)


def actions(context: typer.Context, incomplete: str) -> Completions:
    """Complete the name of an action: the built-in ones, and those that tasks have."""
    known = (*BUILT_IN_ACTIONS, *(str(name) for (name,) in _rows(context, _ACTIONS, incomplete)))
    return _beginning(tuple(dict.fromkeys(known)), incomplete)


def labels(context: typer.Context, incomplete: str) -> Completions:
    """Complete a label."""
    return [(str(label), "") for (label,) in _rows(context, _LABELS, incomplete)]


def pools(context: typer.Context, incomplete: str) -> Completions:
    """Complete the name of a pool: those that were declared on this file."""
    return [(str(name), "") for (name,) in _rows(context, _POOLS, incomplete)]


def needs(context: typer.Context, incomplete: str) -> Completions:
    """Complete the pool of `--need POOL=UNITS`."""
    return [(f"{name}=", "") for name, _ in pools(context, incomplete)]


def _beginning(words: Sequence[str], incomplete: str) -> Completions:
    return [(str(word), "") for word in words if word.startswith(incomplete)]


def _rows(context: typer.Context, query: str, incomplete: str) -> Sequence[Sequence[object]]:
    with suppress(Exception):  # a shell would show any error amid the line that is typed
        given = context.find_root().params
        path = Session(given.get("config"), given.get("database_url")).settings().sqlite_path
        if path is not None and path.is_file():
            address = f"file:{quote(str(path))}?mode=ro"
            with closing(sqlite3.connect(address, uri=True, timeout=LOCK_PATIENCE_S)) as reader:
                return reader.execute(query, (LOCAL.tenant, incomplete, incomplete, MAX_SHELL_COMPLETIONS)).fetchall()
    return ()


Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="the task: its id, such as t_7k3m9qx2w4hb, the beginning of it, or a title that no other task has",
        autocompletion=ids,
    ),
]
Label = Annotated[str | None, typer.Option(help="only tasks with this label", autocompletion=labels)]
RepeatPolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--repeat-policy",
        metavar="NAME=VALUE",
        help="how it recurs: overlap, coalesce, catchup_window, jitter, pause_after, except; may be repeated",
    ),
]
AfterOption = Annotated[
    list[str] | None,
    typer.Option("--after", metavar="ID", help="wait until this task or chain has ended; repeatable"),
]
AfterFailureOption = Annotated[
    AfterFailure | None,
    typer.Option(help="what happens to this task if one of --after fails: `fail` by default"),
]
WaitForOption = Annotated[
    str | None,
    typer.Option(metavar="EVENT", help="wait until this event is sent; or JSON with event, match, timeout and more"),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(help="a label to find it by; may be repeated", autocompletion=labels),
]
Action = Annotated[
    str, typer.Option(help="the action: reminder, webhook, watch, or one of your handlers", autocompletion=actions)
]

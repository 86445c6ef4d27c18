"""Output of the command line: tables and lines for people, JSON for machines."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.task import Json, State
from duetime.widgets.formats.terminal_text import plain, plain_json, plain_lines
from duetime.widgets.text.list_text import window_in_words
from rich.console import Console
from rich.table import Table
from rich.text import Text

AsJson = Annotated[bool, typer.Option("--json", help="write JSON, the payload that the tools return, and uncut")]
AsCsv = Annotated[bool, typer.Option("--csv", help="write CSV, with a line of names first")]

UNLIMITED_COLUMNS = 10_000
"""Columns where no terminal sets the width: whoever reads a pipe wants whole lines."""

_COLOURS = {
    State.SCHEDULED: "cyan",
    State.READY: "blue",
    State.RUNNING: "blue",
    State.RETRYING: "yellow",
    State.SUSPENDED: "yellow",
    State.SUCCEEDED: "green",
    State.FAILED: "red",
    State.EXPIRED: "red",
}


def console() -> Console:
    """Return the console on stdout: coloured on a terminal unless `NO_COLOR` is set, plain and unwrapped elsewhere."""
    width = None if sys.stdout.isatty() else UNLIMITED_COLUMNS
    return Console(file=sys.stdout, width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)


def say(line: str) -> None:
    """Write one line of plain text."""
    console().print(Text(plain(line)))


def note(line: str) -> None:
    """Write a line for the person at the terminal, on stderr, so that what is on stdout can be piped."""
    sys.stderr.write(f"{plain_lines(line)}\n")


def note_no_process() -> None:
    """Write that no process runs the tasks, and what to do about it."""
    note(
        "No process is running tasks, so no task will start: `duetime serve` runs them while it is open; "
        "`duetime service install` sets that up for good."
    )


def as_json(value: Json) -> None:
    """Write JSON: indented on a terminal, one line elsewhere."""
    indent = 2 if sys.stdout.isatty() else None
    sys.stdout.write(plain_json(json.dumps(value, indent=indent, ensure_ascii=False)) + "\n")


def state_word(
    state: State, *, paused: bool = False, damaged: bool = False, stopping: bool = False, blocked: bool = False
) -> Text:
    """Return the word for a state, or for what stands before it, and that it is paused; colour only repeats that."""
    paused, damaged = paused and state in OPEN, damaged and state in OPEN
    instead = paused and state is State.SCHEDULED
    looks = (("damaged", damaged), ("stopping", stopping), ("paused", instead), ("blocked", blocked))
    word = next((look for look, stands in looks if stands), state.value)
    style = "red" if damaged else _COLOURS.get(state, "") if word == state.value else "yellow"
    return Text.assemble((word, style), ", paused" if paused and word != "paused" else "")


def state_of(state: State, known: Mapping[str, Any]) -> Text:
    """Return the word for the state of a run or a task, by what stands before it in its payload."""
    flags = {name: bool(known.get(name)) for name in ("paused", "damaged", "blocked")}
    return state_word(state, **flags, stopping=bool(known.get("cancel_requested")))


WHOLE_COLUMNS = frozenset({"ID", "TASK"})
"""Columns that are never broken: an id is copied, and half of it names nothing. The others give way."""

READABLE_COLUMN_CHARS = 12
"""A column that is narrower than this, and than its content, is hard to read."""


def table(columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, spare: Sequence[str] = ()) -> None:
    """Write a table; what users wrote is shown as it is, never read as markup.

    The `spare` columns are left out, the first one first, where the terminal is too narrow to read them all.
    """
    cells = [[cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row] for row in rows]
    kept = _kept(columns, cells, spare)
    shown = Table(*(columns[at] for at in kept), box=None, header_style="bold", pad_edge=False)
    for column in shown.columns:
        column.overflow = "fold"
        column.no_wrap = column.header in WHOLE_COLUMNS
    for row in cells:
        shown.add_row(*(row[at] for at in kept))
    _write(shown)


def _kept(columns: Sequence[str], rows: Sequence[Sequence[Text]], spare: Sequence[str]) -> list[int]:
    """Return the positions of the columns that the terminal has room for."""
    lengths = [max([len(name), *(row[at].cell_len for row in rows)]) for at, name in enumerate(columns)]
    needed = [
        length if name in WHOLE_COLUMNS else min(length, READABLE_COLUMN_CHARS)
        for name, length in zip(columns, lengths, strict=True)
    ]
    kept, width = list(range(len(columns))), console().width
    for name in spare:
        if sum(needed[at] + 2 for at in kept) - 2 > width:
            kept.remove(columns.index(name))
    return kept


def verdicts(rows: Iterable[tuple[str, str, str, str]]) -> None:
    """Show what was checked: the verdict, what was found, and what to do about it; one line each."""
    colours = {"ok": "green", "note": "yellow", "wrong": "red"}
    shown: list[tuple[str | Text, str, str]] = []
    for verdict, name, finding, advice in rows:
        apart = "\n" if "\n" in finding or not finding.endswith((".", "?")) else " "
        first, *others = f"{finding}{apart}{advice}".strip().splitlines()
        shown += [(Text(verdict, style=colours[verdict]), name, first), *(("", "", line) for line in others)]
    table(("", "CHECK", "FOUND"), shown)


def facts(pairs: Iterable[tuple[str, str | Text | None]]) -> None:
    """Write what is known, a line each; what is None or empty is left out."""
    shown = Table.grid(padding=(0, 2))
    shown.add_column(no_wrap=True)
    for name, value in pairs:
        if value:
            shown.add_row(Text(name, style="dim"), value if isinstance(value, Text) else Text(plain(value)))
    _write(shown)


_APART = frozenset({"as_csv", "as_json", "task_id"})
"""Parameters that are no option with a value."""


def say_window(what: str, start: datetime | None, end: datetime | None, zone: str) -> None:
    """Say how the bounds of a filter were read, if there are any."""
    window = window_in_words(start, end, zone)
    if window:
        note(f"{what} {window} {zone}.")


def _write(shown: Table) -> None:
    target = console()
    with target.capture() as captured:
        target.print(shown, soft_wrap=False)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def say_next(context: typer.Context, cursor: str | None, *, without: Sequence[str] = ()) -> None:
    """Say which command shows the next page, if there is one: on stderr where stdout is for a program.

    `without` are options that it leaves out.
    """
    if cursor is None:
        return
    words = [str(context.params["task_id"])] if context.params.get("task_id") else []
    for name, value in {**context.params, "cursor": cursor}.items():
        if name not in (*_APART, *without) and value is not None and value is not False:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    as_csv = bool(context.params.get("as_csv"))
    verb = context.command_path.partition(" ")[2]
    line = f"More: duetime {verb} {shlex.join([*words, *(['--csv'] if as_csv else [])])}"
    (note if as_csv else say)(line)


def raw(text: str) -> None:
    """Write a whole file as it is."""
    sys.stdout.write(text)

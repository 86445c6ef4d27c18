"""Answers of a server as a verb shows them: a table for people, JSON or CSV for programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.remote.client import RemoteAnswer
from duetime.widgets.outcome import as_text
from duetime.widgets.quote import cut
from duetime.widgets.text.history_text import clock_time

MAX_CELL_CHARS = 200

ZONE: Final = "zone"
"""Among the parameters of a verb: what gives the zone of the times in its tables, which needs the settings."""

CONTEXT: Final = "context"
"""Among the parameters of a verb: its command, by which the one for the next page is said."""

_TIMES: Final = frozenset(
    {"at", "when", "start", "started", "ended", "started_at", "seen_at", "expires_at", "last_used_at"}
)
_OF_ID = {"id": "ID", "task_id": "TASK"}
"""Names of columns that are never broken."""


@dataclass(frozen=True, slots=True)
class RemoteTable:
    """The rows of an answer, by the name that it has there; all columns are for programs, `shown` ones for people."""

    rows: str
    all: tuple[str, ...]
    shown: tuple[str, ...]


def show_rows(columns: RemoteTable, page: RemoteAnswer, params: Mapping[str, Any], *, nothing: str) -> None:
    """Write the rows of an answer as the options of the verb ask for, and how to get the next page.

    A column that no row fills is left out.
    """
    rows: Sequence[RemoteAnswer] = page.get(columns.rows) or ()
    if params.get("as_json"):
        output.as_json(page)
    elif params.get("as_csv"):
        write_csv(columns.all, rows)
    elif rows:
        zone = zone_of(params) if _TIMES.intersection(columns.shown) else ""
        cells = [[_cell(name, row.get(name), zone) for name in columns.shown] for row in rows]
        kept = [place for place in range(len(columns.shown)) if any(row[place] for row in cells)]
        heads = [_head(columns.shown[place], zone) for place in kept]
        output.table(heads, [[row[place] for place in kept] for row in cells])
    else:
        output.say(nothing)
    if page.get("cursor") and not params.get("as_json"):
        output.note(f"More: the same command with --cursor {page['cursor']}")


def zone_of(params: Mapping[str, Any]) -> str:
    """Return the zone of the times in a verb's tables."""
    given: str = params[ZONE]()
    return given


def _head(name: str, zone: str) -> str:
    said = _OF_ID.get(name, name.replace("_", " ").upper())
    return f"{said} ({zone})" if name in _TIMES else said


def _cell(name: str, value: Json, zone: str) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return "yes"
    if isinstance(value, list):
        return ", ".join(map(as_text, value))
    return clock_time(str(value), zone) if name in _TIMES else cut(as_text(value), MAX_CELL_CHARS)

"""Counts of events as tables: by group, and by time and kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.rules.time import times
from duetime.server.cli import output
from duetime.server.cli.formats.csv_table import write_csv


def show_counts(found: Mapping[str, Any], *, as_json: bool, as_csv: bool) -> None:
    """Write the number of events by group."""
    by = found["by"]
    if as_json:
        output.as_json(dict(found))
    elif as_csv:
        write_csv((by, "events"), ({by: name, "events": count} for name, count in found["counts"].items()))
    elif found["counts"]:
        output.table((by.upper(), "EVENTS"), ((name, str(count)) for name, count in found["counts"].items()))
    else:
        output.say("No events.")
    _note_cut(found)


def show_buckets(found: Mapping[str, Any], zone: str, *, as_json: bool, as_csv: bool) -> None:
    """Write the number of events by time and kind."""
    kinds = sorted({kind for each in found["buckets"] for kind in each["counts"]})
    if as_json:
        output.as_json(dict(found))
    elif as_csv:
        write_csv(("start", *kinds), ({"start": each["start"], **each["counts"]} for each in found["buckets"]))
    elif found["buckets"]:
        heads = (f"FROM ({zone})", *(kind.upper() for kind in kinds))
        output.table(heads, (_row(each, zone, kinds) for each in found["buckets"]))
    else:
        output.say("No events.")
    _note_cut(found)


def _row(bucket: Mapping[str, Any], zone: str, kinds: Sequence[str]) -> list[str]:
    start = times.describe(datetime.fromisoformat(bucket["start"]), zone)
    return [start, *(str(bucket["counts"].get(kind, "")) for kind in kinds)]


def _note_cut(found: Mapping[str, Any]) -> None:
    if found.get("counted_to"):
        output.note(f"The newest events alone, back to {found['counted_to']}: give --since for all of a shorter time.")

"""Counts of runs or of events as tables: by group, and by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.rules.time import times
from duetime.server.cli import output
from duetime.server.cli.formats.csv_table import write_csv


def show_counts(found: Mapping[str, Any], what: str, *, as_json: bool, as_csv: bool) -> None:
    """Write the number of runs or of events, as `what` says, by group."""
    by = found["by"]
    if as_json:
        output.as_json(dict(found))
    elif as_csv:
        write_csv((by, what), ({by: name, what: count} for name, count in found["counts"].items()))
    elif found["counts"]:
        output.table((by.upper(), what.upper()), ((name, str(count)) for name, count in found["counts"].items()))
    else:
        output.say(f"No {what}.")
    _note_cut(found, what)


def show_buckets(found: Mapping[str, Any], what: str, *, as_json: bool, as_csv: bool) -> None:
    """Write the number of runs by time and state, or of events by time and kind."""
    kinds = sorted({kind for each in found["buckets"] for kind in each["counts"]})
    if as_json:
        output.as_json(dict(found))
    elif as_csv:
        write_csv(("start", *kinds), ({"start": each["start"], **each["counts"]} for each in found["buckets"]))
    elif found["buckets"]:
        heads = (f"FROM ({found['timezone']})", *(kind.upper() for kind in kinds))
        output.table(heads, (_row(each, found["timezone"], kinds) for each in found["buckets"]))
    else:
        output.say(f"No {what}.")
    _note_cut(found, what)


def _row(bucket: Mapping[str, Any], zone: str, kinds: Sequence[str]) -> list[str]:
    start = times.describe(datetime.fromisoformat(bucket["start"]), zone)
    return [start, *(str(bucket["counts"].get(kind, "")) for kind in kinds)]


def _note_cut(found: Mapping[str, Any], what: str) -> None:
    if found.get("counted_to"):
        output.note(f"The newest {what} alone, back to {found['counted_to']}: give --since for all of a shorter time.")

"""The rows of a list or of a history for a program: all that the tables say, and nothing cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from duetime.scheduler.events import Event
from duetime.widgets.schema.history_parts import HistoryPart
from duetime.widgets.text.history_text import changes_in_words

EVENT_COLUMNS = ("at", "task_id", "title", "kind", "actor", "via", "from", "to", "changed", "reason")

JsonRow = dict[str, Any]


def events(past: HistoryPart, found: Sequence[Event], titles: Mapping[str, str]) -> list[JsonRow]:
    """Return the events of a history as JSON, each with its task."""
    shown = past.model_dump(mode="json", by_alias=True, exclude_none=True)["events"]
    of_task = ({"task_id": event.task_id, "title": titles.get(event.task_id, "")} for event in found)
    return [{**task, **row} for task, row in zip(of_task, shown, strict=True)]


def event_cells(row: JsonRow) -> JsonRow:
    """Return a row of `events` without parts in parts."""
    return {**row, "changed": changes_in_words(row.get("changes"), fence=False)}

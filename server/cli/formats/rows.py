"""The rows of a list or of a history for a program: all that the tables say, and nothing cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from duetime.scheduler.events import Event
from duetime.scheduler.rules.states import blocked_by
from duetime.scheduler.rules.time import times, zones
from duetime.scheduler.views import TaskPage, TaskView
from duetime.widgets.payload import as_json, due, list_payload
from duetime.widgets.schema.history_parts import HistoryPart
from duetime.widgets.text.history_text import changes_in_words

TASK_COLUMNS = (
    *("id", "title", "state", "when", "local", "timezone", "action", "repeat", "priority", "deadline", "labels"),
    *("paused", "paused_until", "damaged", "blocked", "why", "expected", "attempt", "max_attempts"),
    *("last_state", "last_ended", "last_attempts", "last_summary", "last_unverified", "chain", "step"),
)
EVENT_COLUMNS = ("at", "task_id", "title", "kind", "actor", "via", "from", "to", "changed", "reason")

JsonRow = dict[str, Any]


def listed(page: TaskPage) -> JsonRow:
    """Return a page of tasks as JSON."""
    shown = as_json(list_payload(page))
    rows = [_whole(row, view) for row, view in zip(shown["tasks"], page.views, strict=True)]
    return {**shown, "tasks": rows}


def _whole(row: JsonRow, view: TaskView) -> JsonRow:
    """Add to a row of the tools what a table of the terminal has, and what was cut for a model."""
    task, at = view.record.task, due(view.record.run)
    last = view.record.last_run or view.record.run
    if row.get("last_run", {}).get("summary") is not None:
        row["last_run"]["summary"] = last.error
    if row.get("last_run", {}).get("unverified") is not None:
        row["last_run"]["unverified"] = last.unverified
    whole = {"why": blocked_by(view.record.run)} if "why" in row else {}
    return {
        **row,
        **whole,
        "title": task.title,
        "local": _local(at, task.timezone),
        "timezone": task.timezone,
        "relative": times.relative(at, view.now),
        "action": task.action,
        "labels": list(task.labels),
    }


def _local(at: datetime, zone: str) -> str:
    return at.astimezone(zones.load(zone)).isoformat(timespec="seconds")


def task_cells(row: JsonRow) -> JsonRow:
    """Return a row of `listed` without parts in parts."""
    return {**row, **{f"last_{name}": value for name, value in row.get("last_run", {}).items()}}


def events(past: HistoryPart, found: Sequence[Event], titles: Mapping[str, str]) -> list[JsonRow]:
    """Return the events of a history as JSON, each with its task."""
    shown = past.model_dump(mode="json", by_alias=True, exclude_none=True)["events"]
    of_task = ({"task_id": event.task_id, "title": titles.get(event.task_id, "")} for event in found)
    return [{**task, **row} for task, row in zip(of_task, shown, strict=True)]


def event_cells(row: JsonRow) -> JsonRow:
    """Return a row of `events` without parts in parts."""
    return {**row, "changed": changes_in_words(row.get("changes"), fence=False)}

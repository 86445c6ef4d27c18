"""The history as tables: attempts, the newest traceback, and events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from duetime.server.cli import output
from duetime.server.cli.formats.csv_table import write_csv
from duetime.widgets.schema.history_parts import AttemptPart
from duetime.widgets.text.history_text import changes_in_words, clock_time

EVENT_COLUMNS = ("at", "task_id", "title", "kind", "actor", "via", "from", "to", "changed", "reason")

PastEvent = Mapping[str, Any]
"""An event as `duetime.events/1` or the history of a task has it."""


def show_history(
    attempts: Sequence[AttemptPart], events: Sequence[PastEvent], zone: str, *, titled: bool = False
) -> None:
    """Show attempts and events at their wall times in `zone`, events of many tasks with the titles of these."""
    if attempts:
        show_attempts(attempts, zone)
    if not events:
        output.say("No events.")
        return
    named = ("TASK", "TITLE") if titled else ("TASK",)
    columns = (f"AT ({zone})", *named, "EVENT", "STATE", "BY", "CHANGED", "WHY")
    output.table(columns, (_event(event, zone, titled) for event in events), spare=("BY", "CHANGED", "STATE"))


def show_attempts(attempts: Sequence[AttemptPart], zone: str) -> None:
    """Show attempts, and the newest traceback."""
    columns = ("RUN", "ATTEMPT", f"STARTED ({zone})", "ENDED", "OUTCOME", "WHY")
    output.table(columns, (_attempt(attempt, zone) for attempt in attempts))
    output.say("")
    traceback_of(next((attempt for attempt in attempts if attempt.traceback), None), zone)


def traceback_of(attempt: AttemptPart | None, zone: str) -> None:
    """Show the traceback of a failed attempt, and an empty line below."""
    if attempt is not None and attempt.traceback:
        output.say(f"Traceback of attempt {attempt.number}, started {clock_time(attempt.started, zone)}:")
        for line in (*attempt.traceback.splitlines(), ""):
            output.say(line)


def write_events(events: Sequence[PastEvent]) -> None:
    """Write events as CSV."""
    write_csv(EVENT_COLUMNS, map(event_cells, events))


def event_cells(event: PastEvent) -> PastEvent:
    """Return an event with its changes in words."""
    return {**event, "changed": _changed(event)}


def _event(event: PastEvent, zone: str, titled: bool) -> Sequence[str]:
    via = f" ({event['via']})" if event.get("via") else ""
    return (
        clock_time(event["at"], zone),
        event.get("step") or event["task_id"],
        *((event.get("title", ""),) if titled else ()),
        event["kind"],
        " -> ".join(_move(event)),
        f"{event['actor']}{via}",
        _changed(event),
        event.get("reason", ""),
    )


def _move(event: PastEvent) -> Iterator[str]:
    if event.get("to"):
        yield from (event[side] for side in ("from", "to") if event.get(side))


def _changed(event: PastEvent) -> str:
    return changes_in_words(event.get("changes"), fence=False)


def _attempt(attempt: AttemptPart, zone: str) -> Sequence[str]:
    return (
        attempt.step or str(attempt.run or ""),
        str(attempt.number),
        clock_time(attempt.started, zone),
        clock_time(attempt.ended, zone) if attempt.ended else "",
        attempt.outcome or "running",
        attempt.reason or "",
    )

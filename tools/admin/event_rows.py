"""Events of the history as JSON, and counts of them: for the command line and REST."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.events import Event
from duetime.scheduler.history.events import EventBuckets, EventCounts
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.widgets.history import changes_of
from duetime.widgets.schema.part import present


def event_json(event: Event, zone: str) -> dict[str, Json]:
    """Return an event."""
    changes: dict[str, Json] = {name: list(values) for name, values in changes_of(event, zone).items()}
    known: dict[str, Json] = {
        "task_id": event.task_id,
        "seq": event.seq,
        "run_id": event.run_id,
        "at": times.utc(event.at),
        "kind": event.kind.value,
        "actor": event.actor,
        "via": event.via,
        "reason": event.reason or None,
        "from": event.from_state.value if event.from_state else None,
        "to": event.to_state.value if event.to_state else None,
        "attempt": event.attempt,
        "changes": changes or None,
    }
    return present(known)


def counts_json(found: EventCounts) -> dict[str, Json]:
    """Return counts by group."""
    counts: dict[str, Json] = {
        "schema": "duetime.event_counts/1",
        "by": found.by.value,
        "counts": dict(found.counts),
    }
    return counts | _counted_to(found.counted_to)


def buckets_json(found: EventBuckets) -> dict[str, Json]:
    """Return counts by time and kind."""
    rows: list[Json] = [
        {"start": times.utc(each.start), "counts": {kind.value: count for kind, count in each.counts.items()}}
        for each in found.buckets
    ]
    known: dict[str, Json] = {
        "schema": "duetime.event_buckets/1",
        "width": found.width.value,
        "timezone": found.zone,
        "buckets": rows,
    }
    return known | _counted_to(found.counted_to)


def _counted_to(at: datetime | None) -> dict[str, Json]:
    return {} if at is None else {"counted_to": times.utc(at)}

"""Counts of events as JSON: for the command line and REST."""

from __future__ import annotations

from datetime import datetime

from duetime.scheduler.history.events import EventBuckets, EventCounts
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json


def counts_json(found: EventCounts) -> dict[str, Json]:
    """Return counts by group."""
    counts: dict[str, Json] = {
        "schema": "duetime.event_counts/1",
        "by": found.by.value,
        "counts": dict(found.counts),
    }
    return counts | counted_to(found.counted_to)


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
    return known | counted_to(found.counted_to)


def counted_to(at: datetime | None) -> dict[str, Json]:
    """Return until when rows are counted, where a count stopped early."""
    return {} if at is None else {"counted_to": times.utc(at)}

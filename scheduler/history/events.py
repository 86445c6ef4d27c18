"""The words of counts of events: by group and by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.history.runs import BucketWidth


class EventGroup(StrEnum):
    """By what events are counted. An event of a task with two labels counts for both.

    By `state` these are the moves of runs; by `surface`, the changes that callers made.
    """

    KIND = "kind"
    STATE = "state"
    ACTOR = "actor"
    SURFACE = "surface"
    ACTION = "action"
    LABEL = "label"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class EventCounts:
    """Number of events by group, the largest first; with a `counted_to`, older events were not counted."""

    by: EventGroup
    counts: Mapping[str, int] = field(default_factory=dict)
    counted_to: datetime | None = None
    where: EventFilter = EventFilter()  # noqa: RUF009 - a frozen value


@dataclass(frozen=True, slots=True)
class EventBucket:
    """Number of events by kind in the time from `start` to the start of the next bucket."""

    start: datetime
    counts: Mapping[EventKind, int]


@dataclass(frozen=True, slots=True)
class EventBuckets:
    """Counts by time, oldest first, without empty buckets; with a `counted_to`, older events were not counted."""

    width: BucketWidth
    zone: str = "UTC"
    buckets: tuple[EventBucket, ...] = ()
    counted_to: datetime | None = None
    where: EventFilter = EventFilter()  # noqa: RUF009 - a frozen value

"""Events: one row for each legal state change and each change by an actor, written in the same transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final

from duetime.scheduler.task import Json, State, Tier

DUETIME_ACTOR = "duetime"
"""The actor of what Duetime does by itself."""

SPAWNED_MEMBER: Final = "spawned"
SPAWNED_COUNT_MEMBER: Final = "spawned_count"
"""In the event of a success: the first tasks that the run has spawned, and how many it has."""


class EventKind(StrEnum):
    """The kind of a change to a task. Documented in docs/states.md."""

    CREATED = "created"
    RESCHEDULED = "rescheduled"
    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"
    CANCEL_REQUESTED = "cancel_requested"
    CANCEL_UNDONE = "cancel_undone"
    UNDONE = "undone"
    SNOOZED = "snoozed"
    SKIPPED = "skipped"
    RUN_NOW = "run_now"
    NEXT_OCCURRENCE = "next_occurrence"
    UNBLOCKED = "unblocked"
    REVIVED = "revived"
    ASKED = "asked"
    WAIT_BEGAN = "wait_began"
    WAIT_ENDED = "wait_ended"
    APPROVED = "approved"
    REJECTED = "rejected"
    READY = "ready"
    STARTED = "started"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRYING = "retrying"
    SUSPENDED = "suspended"
    CRASHED = "crashed"
    EXPIRED = "expired"
    DEADLINE_MISSED = "deadline_missed"
    ENDED = "ended"
    DAMAGED = "damaged"


OF_CHAIN = "chain_id"
"""Marks the values of an event of a step that are of its whole chain."""

UNDOABLE_KINDS = (
    *(EventKind.RESCHEDULED, EventKind.PAUSED, EventKind.RESUMED, EventKind.SNOOZED, EventKind.SKIPPED),
    *(EventKind.RUN_NOW, EventKind.NEXT_OCCURRENCE, EventKind.CANCELLED, EventKind.REJECTED),
)
"""The kinds of events of changes that can be undone; a wish to cancel what runs cannot be."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change to a task: its actor, kind, time and reason. `seq` counts 1, 2, 3 ... within a task.

    There is no gap but where retention deleted old events. `via` is by which way a caller made it, as in `Principal`;
    changes that nobody requested have none.
    """

    id: int
    tenant: str
    task_id: str
    run_id: str | None
    seq: int
    at: datetime
    kind: EventKind
    actor: str
    reason: str | None = None
    from_state: State | None = None
    to_state: State | None = None
    attempt: int | None = None
    before: Mapping[str, Json] | None = None
    after: Mapping[str, Json] | None = None
    via: str | None = None


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A filter for events; absent parts match everything. `since` is inclusive, `until` exclusive.

    `actor` made the change, and `via` is the way it came by: a surface (`mcp`) or a surface and an address. `tier` is
    of its task, and `title` a part of that task's title, in any case. `worker`, `error`, `min_attempts`, `min_cost` and
    the lengths of time are of its run, as in `RunFilter`. An event without a run meets none of these.
    """

    task_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    state: State | None = None
    action: str | None = None
    label: str | None = None
    text: str | None = None
    title: str | None = None
    kind: EventKind | None = None
    actor: str | None = None
    via: str | None = None
    tier: Tier | None = None
    worker: str | None = None
    min_attempts: int | None = None
    min_duration: timedelta | None = None
    max_duration: timedelta | None = None
    min_lateness: timedelta | None = None
    min_delay: timedelta | None = None
    min_cost: Decimal | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class EventPage:
    """One page of events, newest first. It may be short, or empty, where few of many events match.

    `cursor` continues behind it, None at the end. All events down to `searched_to` were compared; None when all were,
    or the page is full.
    """

    events: tuple[Event, ...]
    cursor: str | None = None
    where: EventFilter = EventFilter()
    searched_to: datetime | None = None

"""The words of the history of runs: its filter, its pages, and its counts by group and by time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import Standing


class RunGroup(StrEnum):
    """By what runs are counted. A run of a task with two labels counts for both."""

    STATE = "state"
    ACTION = "action"
    TIER = "tier"
    WORKER = "worker"
    LABEL = "label"
    TENANT = "tenant"
    ERROR = "error"


class BucketWidth(StrEnum):
    """The length of time for which runs are counted together."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class RunFilter:
    """A filter for runs; absent parts match everything. `since` is inclusive, `until` exclusive.

    Both bound the time of a run: when it ended, or, while it is open, its next time. With `or_begun`, `until` leaves
    out none that is ready, running, or to be tried again. `text` is a part of the title, of the error, or of the reason
    of an attempt, in any case. `title` and `error` are parts of these alone. `worker` ran an attempt of it. `actor`
    owns its task, or changed it. `min_lateness` is from the deadline to the end, `min_delay` from `scheduled_for` to
    the start.
    `started_before` leaves out runs that began at that time or later, and those that have not begun.
    `min_units` are units that its attempts used of `pool`, or of all pools together; `min_cost` is what that cost.
    With `oldest_first` pages begin with the earliest time: what is to come is listed in the order in which it is due.
    With `unpaused`, open runs of paused tasks are left out.
    """

    task_id: str | None = None
    states: tuple[State, ...] = ()
    action: str | None = None
    tier: Tier | None = None
    label: str | None = None
    worker: str | None = None
    actor: str | None = None
    text: str | None = None
    title: str | None = None
    error: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    or_begun: bool = False
    min_duration: timedelta | None = None
    max_duration: timedelta | None = None
    min_lateness: timedelta | None = None
    min_delay: timedelta | None = None
    started_before: datetime | None = None
    min_attempts: int | None = None
    pool: str | None = None
    min_units: float | None = None
    min_cost: Decimal | None = None
    standing: Standing | None = None
    oldest_first: bool = False
    unpaused: bool = False


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run as a list shows it, with what its task says. `at` is when it ended, or its next time while it is open.

    `worker` had its newest attempt. `units` are what its attempts used of each pool. `cost` is what that cost in the
    installation's currency: None where no pool with a price was used. `why` is by whom a cancelled one was cancelled,
    and the reason; of a `blocked` one, what it misses. `paused` is its task.
    """

    id: str
    task_id: str
    tenant: str
    title: str
    action: str
    tier: Tier
    labels: tuple[str, ...]
    timezone: str
    state: State
    at: datetime
    scheduled_for: datetime
    started_at: datetime | None
    ended_at: datetime | None
    deadline: datetime | None
    attempt: int
    worker: str | None
    error: str | None
    cancel_requested: bool
    overtaken_at: datetime | None
    paused: bool
    units: Mapping[str, float] = field(default_factory=dict)
    cost: Decimal | None = None
    damage: tuple[str, ...] = ()
    blocked: bool = False
    why: str | None = None

    @property
    def stopping(self) -> bool:
        """Whether it was asked to stop, and has not ended: not where it gives way to the next occurrence."""
        return self.cancel_requested and self.overtaken_at is None and self.ended_at is None

    @property
    def held(self) -> bool:
        """Whether it is open, and the pause of its task keeps it from its next attempt."""
        return self.paused and self.ended_at is None and self.state is not State.RUNNING

    @property
    def stands(self) -> str:
        """The word for how it stands: its state, or what stands before that."""
        looks = (
            ("paused", self.held),
            ("stopping", self.stopping),
            (Standing.BLOCKED.value, self.blocked),
            (Standing.UNVERIFIED.value, self.state is State.SUCCEEDED and self.error is not None),
        )
        return next((look for look, stands in looks if stands), self.state.value)

    @property
    def duration(self) -> timedelta | None:
        """From the start of the first attempt to the end, pauses between attempts too; None before its end."""
        return self.ended_at - self.started_at if self.ended_at and self.started_at else None

    @property
    def lateness(self) -> timedelta | None:
        """From the deadline to the end; negative when it was in time, None without either."""
        return self.ended_at - self.deadline if self.ended_at and self.deadline else None

    @property
    def delay(self) -> timedelta | None:
        """From when it was due to the start of the first attempt; None when it never started."""
        return self.started_at - self.scheduled_for if self.started_at else None


@dataclass(frozen=True, slots=True)
class RunPage:
    """One page of runs, newest first unless the filter turns that round. It may be short where few of many match.

    `cursor` continues behind it, None at the end. All runs as far as `searched_to` were looked at; None when all were.
    """

    runs: tuple[RunSummary, ...] = ()
    cursor: str | None = None
    where: RunFilter = RunFilter()
    searched_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Number of runs by group, the largest first; with a `counted_to`, older runs were not counted."""

    by: RunGroup
    counts: Mapping[str, int] = field(default_factory=dict)
    counted_to: datetime | None = None
    where: RunFilter = RunFilter()


@dataclass(frozen=True, slots=True)
class TimeBucket:
    """Number of runs by state in the time from `start` to the start of the next bucket."""

    start: datetime
    counts: Mapping[State, int]


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """Counts by time, oldest first, without empty buckets; with a `counted_to`, older runs were not counted."""

    width: BucketWidth
    zone: str = "UTC"
    buckets: tuple[TimeBucket, ...] = ()
    counted_to: datetime | None = None
    where: RunFilter = RunFilter()

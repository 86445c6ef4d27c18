"""The nouns, as plain frozen values. Datetimes are in UTC; those named `wall` are naive, in their object's zone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from duetime.scheduler.principal import LOCAL, Principal  # their address until they had a module of their own
from typing_extensions import TypeAliasType

__all__ = ("LOCAL", "Principal", "record")  # what others may import from here although it is imported here
Json = TypeAliasType("Json", "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None")
"""A value that JSON can write. Values to be read are `Any`: only their writer knows their shape."""

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, slots: bool) -> Callable[[type], type]:
        """Return `dataclass`, frozen for type checkers alone: a frozen object takes three times as long to make."""
        return dataclass(slots=slots, unsafe_hash=frozen)


class State(StrEnum):
    """Where a run is; the legal moves between these are in `rules.states`."""

    SCHEDULED = "scheduled"
    WAITING = "waiting"
    READY = "ready"
    RUNNING = "running"
    SUSPENDED = "suspended"
    RETRYING = "retrying"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


class DeliveryState(StrEnum):
    """The state of a delivery, which succeeds or fails independently of its run."""

    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


class ApprovalAnswer(StrEnum):
    """The user's answer to the question whether a run may start or continue."""

    APPROVE = "approve"
    REJECT = "reject"


class ApprovalRequest(TypedDict, total=False):
    """The members of `approval`: the question, until when it is asked, and the answer if nobody gives one."""

    question: str
    by: str | date | timedelta
    default: ApprovalAnswer | Literal["approve", "reject"]


class Tier(StrEnum):
    """The weight of a task; each tier has a guaranteed share of the starts, and a patience."""

    CRITICAL = "critical"
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    BACKGROUND = "background"

    @property
    def rank(self) -> int:
        """Return 1 for critical to 5 for background: what a queue sorts by."""
        return _RANKS[self]


_RANKS = {tier: rank for rank, tier in enumerate(Tier, start=1)}


class DeadlineType(StrEnum):
    """After a deadline a run is worthless (hard), or worth less (soft)."""

    SOFT = "soft"
    HARD = "hard"


class Penalty(StrEnum):
    """The cost of missing a soft deadline: none, one that grows with each second, or one that is due once."""

    NONE = "none"
    LINEAR = "linear"
    STEP = "step"


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The retries of a failing run: exponential backoff with full jitter, `max_attempts` tries in all."""

    max_attempts: int = 5
    backoff: timedelta = timedelta(seconds=1)
    max_backoff: timedelta = timedelta(hours=1)


class Overlap(StrEnum):
    """The effect on an occurrence that falls due while the run before it is still open; the values are Temporal's."""

    SKIP = "skip"
    BUFFER_ONE = "buffer_one"
    BUFFER_ALL = "buffer_all"
    CANCEL_OTHER = "cancel_other"
    ALLOW_ALL = "allow_all"


class Coalesce(StrEnum):
    """The occurrences that still run of those missed while nothing ran: the earliest, the latest, or all of them."""

    LATEST = "latest"
    EARLIEST = "earliest"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class RepeatPolicy:
    """The behaviour of a recurring task: `overlap`, a pause after so many failures in a row, dates left out.

    Occurrences that were missed longer ago than `catchup_window` do not run; of the rest, `coalesce` says what does.
    Each start is later than its time by a part of `jitter` that is the task's own.
    """

    overlap: Overlap = Overlap.SKIP
    catchup_window: timedelta | None = None
    coalesce: Coalesce | None = None
    jitter: timedelta | None = None
    pause_after: int | None = None
    leave_out: tuple[date, ...] = ()

    def parts(self) -> dict[str, Any]:
        """Return the members that differ from their defaults, under the names that callers use."""
        usual = RepeatPolicy()
        names = ((field.name, "except" if field.name == "leave_out" else field.name) for field in fields(self))
        return {word: getattr(self, name) for name, word in names if getattr(self, name) != getattr(usual, name)}


class Notify(StrEnum):
    """The outcomes of a task that its user is notified of."""

    ALWAYS = "always"
    FAILURE = "failure"
    CHANGE = "change"
    NEVER = "never"


@record(frozen=True, slots=True)
class Task:
    """A scheduled task: the intent. `revision` rises by one with each change of it by an actor.

    Runs end by `deadline`, as said; `deadline_after` is its span from `scheduled_for`. `traceparent`, `tracestate` and
    `origin` are of the call. A result has to meet `expect`; `asks` has what comes before a run: a question or an event.
    """

    id: str
    tenant: str
    owner: str
    title: str
    action: str
    payload: Mapping[str, Json]
    timezone: str
    when: str
    repeat: str | None
    anchor: datetime
    until: datetime | None
    max_runs: int | None
    paused: bool
    retry: RetryPolicy
    deliver_to: tuple[str, ...]
    labels: tuple[str, ...]
    revision: int
    created_at: datetime
    updated_at: datetime
    priority: Tier = Tier.NORMAL
    deadline: str | None = None
    deadline_after: timedelta | None = None
    deadline_type: DeadlineType = DeadlineType.SOFT
    penalty: Penalty = Penalty.NONE
    estimate: timedelta | None = None
    needs: Mapping[str, int] = field(default_factory=dict)
    traceparent: str | None = None
    notify: Notify = Notify.ALWAYS
    repeat_policy: RepeatPolicy | None = None
    expect: Mapping[str, Any] = field(default_factory=dict)
    on_failure: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, str] = field(default_factory=dict)
    asks: Mapping[str, Any] | None = None
    key_template: str | None = None
    paused_until: datetime | None = None
    tracestate: str | None = None


@record(frozen=True, slots=True)
class Run:
    """One occurrence of a task, unique by (task, scheduled_for, generation); `number` counts them from 1.

    The dispatcher looks at it at `wake_at`, None while held or done. Each start raises `attempt`, the fence. `failures`
    count for `max_attempts`; `crashes` had no answer, `missed` fell due while nothing ran. Hard ones end at `drop_at`.
    `failed_before` failed before it; it completes `repeats`; `slot` is its old time, `occurrence` that of its key.
    """

    id: str
    task_id: str
    tenant: str
    scheduled_for: datetime
    state: State
    generation: int = 1
    number: int = 1
    current: bool = True
    wake_at: datetime | None = None
    first_ready_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    attempt: int = 0
    failures: int = 0
    crashes: int = 0
    missed: int = 0
    cancel_requested: bool = False
    progress: Any = None
    checkpoint: Any = None
    summary: str | None = None
    result: Any = None
    error: str | None = None
    slot: datetime | None = None
    deadline: datetime | None = None
    drop_at: datetime | None = None
    failed_before: int = 0
    repeats: str | None = None
    overtaken_at: datetime | None = None
    occurrence: datetime | None = None

    @property
    def gives_way(self) -> bool:
        """Whether the run was cancelled, or is asked to stop, because the next occurrence of its series is due."""
        return self.overtaken_at is not None and (self.cancel_requested or self.state is State.CANCELLED)

    @property
    def unverified(self) -> str | None:
        """Why the result of a succeeded run does not meet the expectation of its task; None where it does."""
        return self.error if self.state is State.SUCCEEDED else None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a run. `outcome` is None while it runs, then done, retry, wait, yielded, failed, cancelled ..."""

    run_id: str
    number: int
    worker: str
    started_at: datetime
    ended_at: datetime | None = None
    outcome: str | None = None
    reason: str | None = None
    traceback: str | None = None  # of the exception by which it failed; lists have the newest


@dataclass(frozen=True, slots=True)
class Delivery:
    """The delivery of one outcome to a user through one channel, with the trace context of the attempt that ended."""

    id: str
    tenant: str
    task_id: str
    run_id: str
    channel: str
    state: DeliveryState = DeliveryState.PENDING
    attempts: int = 0
    next_at: datetime | None = None
    delivered_at: datetime | None = None
    error: str | None = None
    traceparent: str | None = None
    tracestate: str | None = None


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """An outcome as users and their agents read it; a `quiet` one counts as read, `held_until` is of its deliveries."""

    id: str
    tenant: str
    user: str
    task_id: str
    run_id: str
    title: str
    text: str
    state: State
    created_at: datetime
    read_at: datetime | None = None
    quiet: bool = False
    held_until: datetime | None = None

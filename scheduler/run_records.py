"""Runs on their way from ready to settled, as the store and the queue exchange them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import NewTask
from duetime.scheduler.task import DeadlineType, Delivery, InboxMessage, Json, Run, State, Task, Tier
from duetime.scheduler.waits.approval import Approval
from duetime.scheduler.waits.signal import SignalWait


class Waiter(NamedTuple):
    """A task that waits for `upstream_id`, one for each such pair.

    `deadline` is an instant that does not move; one that counts from the start of the task presses nobody before.
    """

    upstream_id: str
    task_id: str
    tier: Tier
    action: str
    deadline: datetime | None = None
    estimate: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ReadyRun:
    """A run that may start, with what a queue needs to order and admit it.

    `estimate` is what the caller said, `created_at` its task's. `late` is a soft run whose `drop_at` or deadline has
    passed: its deadline does not order it any more. `waiters` wait for its task, if that is `followed`.
    """

    run_id: str
    task_id: str
    tenant: str
    scheduled_for: datetime
    first_ready_at: datetime
    action: str
    crashes: int = 0
    tier: Tier = Tier.NORMAL
    needs: Mapping[str, int] = field(default_factory=dict)
    deadline: datetime | None = None
    deadline_type: DeadlineType = DeadlineType.SOFT
    estimate: timedelta | None = None
    drop_at: datetime | None = None
    created_at: datetime | None = None
    followed: bool = False
    late: bool = False
    waiters: frozenset[Waiter] = frozenset()


@dataclass(frozen=True, slots=True)
class NextTimes:
    """When the next run falls due, and when the next deadline's timer fires; None for never, as things stand.

    `settings_revision` rises with each change of a pool or of the policy. `late_at` is when the next wait for a signal
    is over, and `resume_at` when the next pause is over. `series_at` is when the next series continues whatever its run
    does.
    """

    wake_at: datetime | None
    drop_at: datetime | None
    settings_revision: int = 0
    late_at: datetime | None = None
    series_at: datetime | None = None
    resume_at: datetime | None = None

    def first(self) -> datetime | None:
        times = (self.wake_at, self.drop_at, self.late_at, self.series_at, self.resume_at)
        return min((at for at in times if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class Start:
    """A wish to start a run that a queue has handed out, with the token and the units of pools reserved for it."""

    run_id: str
    token: str = ""
    reserved: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StartTerms:
    """The terms on which a worker starts runs: its name, how long a lease lasts, and the `actions` of its handlers.

    `epoch` is that of the only runner of a database, None where there are many; `actions` of None are all.
    """

    worker: str
    epoch: int | None
    lease: timedelta
    actions: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A run that `worker` has started; `run.attempt` is the fence of everything it writes.

    `reserved` and `token` stand on the run's row as long as it is running. `previous` is the run before it, for a task
    that reports changes and a run that ends without its handler. `followed` says that others came after the task when
    the run began, where the store has read that.
    """

    run: Run
    task: Task
    worker: str
    reserved: Mapping[str, int] = field(default_factory=dict)
    token: str = ""
    previous: Run | None = None
    followed: bool = False


class Known(NamedTuple):
    """A run that others wait for, as explanations name it; `started_at` is when its latest attempt began."""

    task_id: str
    title: str
    action: str
    estimate: timedelta | None
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunningRun:
    """A run that is running, with what a queue that lost everything has to take over."""

    run_id: str
    task_id: str
    tenant: str
    worker: str
    attempt: int
    tier: Tier
    needs: Mapping[str, int]
    reserved: Mapping[str, int]
    token: str
    lease_until: datetime
    created_at: datetime
    action: str


@dataclass(frozen=True, slots=True)
class Expired:
    """A run that was given up because its hard deadline could no longer be met."""

    run_id: str
    task_id: str


class LostAttempt(NamedTuple):
    """An attempt that ended without its worker: the token of its lease in the queue, '' for none, and its event."""

    token: str
    kind: EventKind


class StartsUnknown(StoreUnavailable):
    """The database went away while runs were started: the `claims` stand, and of the `starts` nobody knows yet."""

    def __init__(self, error: StoreUnavailable, claims: Sequence[Claim], starts: Sequence[Start]) -> None:
        super().__init__(str(error))
        self.claims, self.starts = claims, starts


@dataclass(frozen=True, slots=True)
class EndedRun:
    """The end of a run that no attempt ended: a call cancelled it, or it failed with a task that it came after.

    `deadline` and `started_at` are those of the run.
    """

    run_id: str
    tier: Tier
    action: str
    state: State
    deadline: datetime | None
    started_at: datetime | None

    @classmethod
    def of(cls, task: Task, run: Run, state: State) -> EndedRun:
        """Return the end of a run of a task in this state."""
        return cls(run.id, task.priority, task.action, state, run.deadline, run.started_at)


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Lines of one attempt in a row, to be stored: JSON arrays, one in each line of `text`.

    `first` is the number of the first, `cut` how many before it were lost. A chunk that is `last` may repeat lines.
    """

    run_id: str
    attempt: int
    first: int
    lines: int
    cut: int
    size: int
    at: datetime
    text: str
    last: bool = False


class Failure(NamedTuple):
    """The run whose failure made a task: why it failed or stayed unverified, and the result that it had."""

    task_id: str
    run_id: str
    title: str
    state: State
    why: str
    result: Json = None

    @property
    def sentence(self) -> str:
        """Say what failed, and why."""
        how = "is unverified" if self.state is State.SUCCEEDED else self.state.value
        return f"{self.title} {how}: {self.why}"

    def as_input(self) -> dict[str, Json]:
        """Return it as the handler of the task reads it."""
        return {**self._asdict(), "state": self.state.value}


@dataclass(frozen=True, slots=True)
class MadeTask:
    """The task that `on_failure` makes of a failure."""

    new: NewTask
    failure: Failure


@dataclass(frozen=True, slots=True)
class Settlement:
    """The end of an attempt and what follows; `outcome` and `reason` go into the attempt's row.

    `next_run` was computed from `task_revision`, as were the runs that were `skipped` before it; why the task `pauses`,
    if it does. A `checkpoint` of None keeps the stored one. `deliveries` need the message of `inbox`, which has the
    question of a run that `asks`. `used` and `costs`, in millionths, are by pool. With its `claim` it takes one round
    trip. A suspended run `waits` so long, None for until an instant, or `awaits` an event. `spawned` are new tasks by
    name; `traceback`, `traceparent` and `log` are of its attempt. `on_failure` leads to the task of `follow_up`, and to
    the tier to which the task `raises`.
    """

    run_id: str
    attempt: int
    task_revision: int
    to: State
    kind: EventKind
    outcome: str
    reason: str | None = None
    wake_at: datetime | None = None
    failures: int = 0
    summary: str | None = None
    result: Json = None
    error: str | None = None
    checkpoint: Json = None
    inbox: InboxMessage | None = None
    deliveries: tuple[Delivery, ...] = field(default=())
    next_run: Run | None = None
    skipped: tuple[Run, ...] = ()
    pauses: str = ""
    dead_letter: bool = False
    spawned: tuple[tuple[str, NewTask], ...] = ()
    follow_up: MadeTask | None = None
    raises: Tier | None = None
    used: Mapping[str, float] = field(default_factory=dict)
    costs: Mapping[str, int] = field(default_factory=dict)
    waits: timedelta | None = None
    asks: Approval | None = None
    awaits: SignalWait | None = None
    traceback: str | None = None
    traceparent: str | None = None
    log: tuple[LogChunk, ...] = ()
    claim: Claim | None = field(default=None, repr=False, compare=False)

    @property
    def unverified(self) -> bool:
        """Whether the run succeeded without what its task expects, which stands as its error."""
        return self.to is State.SUCCEEDED and self.error is not None


class Verdict(StrEnum):
    """The result of a settlement; only SETTLED wrote anything.

    FENCED: the run is not running, or a later attempt owns it. STALE: the task was changed since the claim and a next
    occurrence depends on it; read the task again, compute it again, and settle again.
    """

    SETTLED = "settled"
    FENCED = "fenced"
    STALE = "stale"

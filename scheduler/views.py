"""A task as stored, and as cards, tools and lists show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from duetime.scheduler.task import Attempt, Delivery, InboxMessage, Run, State, Task, Tier, record
from duetime.scheduler.translatable import Translatable
from duetime.scheduler.view_parts import Occurrence, RunLog, WaitReason

CHAIN_ACTION: Final = "chain"
"""Stands for the action in the record of a chain, which no handler runs."""

UNDO_WINDOW: Final = timedelta(seconds=30)
UNDO_OF_ANSWER: Final = "u_a"
"""Begins the tokens that take an answer back, and no others."""


@record(frozen=True, slots=True)
class TaskRecord:
    """A task as stored, with its current run, the latest one that ran to an end, and what cannot be read (`damage`).

    `side_runs` are open: what was snoozed, or is to run now. The first becomes current where none follows. A step is
    `renewed` whose chain has begun another generation since its last run. For a replay, `failed_run` is that of its
    newest open dead letter. In a list whose states leave out its current run, it is `listed_by_side_run`.
    """

    task: Task
    run: Run
    last_run: Run | None = None
    deliveries: tuple[Delivery, ...] = ()
    side_runs: tuple[Run, ...] = ()
    damage: tuple[str, ...] = ()
    renewed: bool = False
    failed_run: Run | None = None
    listed_by_side_run: bool = False

    @property
    def is_cancelled(self) -> bool:
        """Whether it is cancelled, and each run of it that has not ended was asked to stop."""
        return self.run.state is State.CANCELLED and all(each.cancel_requested for each in self.side_runs)


@dataclass(frozen=True, slots=True)
class ChainStep:
    """One step of a chain: its name, its task, and the names of the steps that it comes after; `why` it failed.

    `unverified` is in what the result of one that succeeded is not as expected. A paused one may continue by itself.
    """

    name: str
    task_id: str
    title: str
    action: str
    state: State
    due: datetime
    after: tuple[str, ...] = ()
    why: str | None = None
    unverified: str | None = None
    paused: bool = False
    paused_until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ChainView:
    """A chain with its steps in the order in which they may run; `step` names the shown task's own step, if any."""

    id: str
    title: str
    steps: tuple[ChainStep, ...]
    step: str | None = None

    @property
    def done(self) -> int:
        """The number of steps that have succeeded."""
        return sum(step.state is State.SUCCEEDED for step in self.steps)


@record(frozen=True, slots=True)
class TaskView:
    """Everything that a card, the CLI or a tool's answer shows of one task at `now`; `expected` has no run yet.

    The view of a chain has a `record` of its own, with the chain's id, whose run is as its steps are together.
    """

    record: TaskRecord
    now: datetime
    upcoming: tuple[Occurrence, ...] = ()
    repeat_text: str | None = None
    repeat_clauses: tuple[Translatable, ...] = ()  # the same, clause by clause
    repeat_notes: tuple[str, ...] = ()
    waits: tuple[WaitReason, ...] = ()
    created: bool | None = None
    warnings: tuple[str, ...] = ()
    undo: str | None = None
    undo_ends: datetime | None = None  # where that is another time than usual
    unread: tuple[InboxMessage, ...] = ()
    expected: bool = False
    failed_attempt: Attempt | None = None  # the newest with a traceback, of this run or the last one
    log: RunLog | None = None  # the last lines of this run or, before it has begun, of the last one
    cost: str | None = None  # of the same run, with its currency
    other_actions: tuple[str, ...] = ()  # after a reminder was scheduled: those that would have done more
    chain: ChainView | None = None
    held_until: datetime | None = None  # when the first delivery goes that quiet hours hold
    not_run: Run | None = None  # of an open series that asks: the occurrence left out since its last run ended
    addressed: bool = False  # whether a call of its fire address starts it

    @property
    def undo_until(self) -> datetime | None:
        """The time until which `undo` works; None without one, and for that of a yes, which works until the start."""
        if self.undo is None or self.undo.startswith(UNDO_OF_ANSWER):
            return None
        run = self.record.run
        cancelled_at = run.ended_at if self.undo == undo_of_cancel(run) else None
        return self.undo_ends or (cancelled_at or self.now) + UNDO_WINDOW

    @property
    def coming(self) -> tuple[Occurrence, ...]:
        """The next occurrences; none during a pause without an end."""
        task = self.record.task
        return () if task.paused and task.paused_until is None else self.upcoming

    @property
    def last_run(self) -> Run | None:
        """The last run that has ended, with its state, summary and result; None before the first one has."""
        return self.record.last_run

    @property
    def waiting_for(self) -> tuple[str, ...]:
        return tuple(wait.sentence for wait in self.waits)


def undo_of_cancel(run: Run) -> str:
    """Return the token that takes the cancel of this run back."""
    return f"u_{run.id[2:]}"


def due_at(run: Run) -> datetime:
    """Return when a reader expects the run: at its next attempt or step once it has begun, before that at its own time.

    A run that waited past its time, for an answer or an event, keeps that and is late. In SQL: `task_filter.DUE_AT`.
    """
    if run.state in {State.RETRYING, State.SUSPENDED}:
        return run.wake_at or run.scheduled_for
    waited = run.started_at is None and run.first_ready_at is not None
    at = run.wake_at if run.state is State.SCHEDULED and not waited else None
    return max(at or run.scheduled_for, run.scheduled_for)


def after_pause(task: Task, due: datetime) -> datetime:
    """Return when a run that is `due` at a time starts: while its task is paused until a time, not before that."""
    return max(due, task.paused_until) if task.paused and task.paused_until else due


class ChainName(NamedTuple):
    """The chain that a task is a step of: its id and title, the name of the step, and whether the chain recurs."""

    id: str
    title: str
    step: str
    repeats: bool = False


class Clash(NamedTuple):
    """Coming runs that overlap from `at` on and together need more units of a pool than it has (`room`)."""

    pool: str
    room: str
    at: datetime
    occurrences: tuple[tuple[TaskView, timedelta], ...]


class Standing(StrEnum):
    """A condition that a run has in addition to its state: unverified, blocked or paused, or an open dead letter."""

    UNVERIFIED = "unverified"
    BLOCKED = "blocked"
    PAUSED = "paused"
    DEAD_LETTER = "dead_letter"


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """A filter for tasks; absent parts match everything. `after` is inclusive, `before` exclusive (next due time).

    The `standing` is that of the current run (blocked), of the last that ended (unverified) or of the task (paused).
    Any run may have the open `dead_letter`.
    """

    states: tuple[State, ...] = ()
    action: str | None = None
    label: str | None = None
    query: str | None = None
    after: datetime | None = None
    before: datetime | None = None
    tier: Tier | None = None
    standing: Standing | None = None

    if TYPE_CHECKING:  # `Scheduler` reads what programs write: one state, or several, by name as well

        def __init__(  # noqa: PLR0917 - the fields
            self,
            states: Sequence[str] = (),
            action: str | None = None,
            label: str | None = None,
            query: str | None = None,
            after: datetime | str | None = None,
            before: datetime | str | None = None,
            tier: str | None = None,
            standing: Standing | None = None,
        ) -> None: ...


@dataclass(frozen=True, slots=True)
class HeldDeliveries:
    """Deliveries to a user that quiet hours hold, and when the first of them goes."""

    count: int
    until: datetime | None


NOTHING_HELD = HeldDeliveries(0, None)


@dataclass(frozen=True, slots=True)
class TaskPage:
    """One page of tasks by next due time; `cursor` fetches the next, None at the end. `counts` are of all of `where`.

    Of the states in `at_least` there may be more. Up to an end to come each occurrence has a view if it is `complete`.
    """

    views: tuple[TaskView, ...]
    counts: Mapping[State, int] = field(default_factory=dict)
    at_least: frozenset[State] = frozenset()
    cursor: str | None = None
    unread: tuple[InboxMessage, ...] = ()
    unread_count: int = 0
    quiet_count: int = 0  # outcomes of the last day of which nobody was notified
    held_count: int = 0  # deliveries that quiet hours hold, and when the first of them goes
    held_until: datetime | None = None
    now: datetime | None = None
    where: TaskFilter = TaskFilter()
    zone: str = "UTC"
    clashes: tuple[Clash, ...] = ()
    complete: bool = True
    chains: Mapping[str, ChainName] = field(default_factory=dict)  # of those tasks of the page that are steps
    overdue: str = ""  # what due and running tasks of the page wait for, where no process runs them

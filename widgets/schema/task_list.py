"""One page of tasks, as `duetime.list/1`."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.scheduler.task import ApprovalAnswer, State, Tier
from duetime.widgets.schema.part import PayloadPart
from duetime.widgets.schema.run_parts import LastRun, Unread, WaitPart
from pydantic import Field


class RowWait(PayloadPart):
    """A reason why the run of a row waits, with the names and meanings of `WaitPart`."""

    kind: str
    pool: str | None = None
    until: str | None = None
    title: str | None = None
    event: str | None = None
    goes_on: bool | None = None
    default_answer: ApprovalAnswer | None = None

    @classmethod
    def of(cls, part: WaitPart) -> RowWait:
        """Return what a row says of a reason."""
        return cls(**part.model_dump(include=set(cls.model_fields)))


class ListRow(PayloadPart):
    """One line of a list: `when` and `deadline` are UTC, `title` is cut; the card reads the rest by id.

    Where a run next to a series comes before its next one, a snoozed one say, `when` and `state` are those of that.
    A run with `cancel_requested` is stopping. `why` is what a `blocked` one misses, `event` the name of the event that
    one waits for. `waits` has what holds a run that is due, or has to be answered or sent, if anything does, as in
    `duetime.task/1`. Quiet hours hold its delivery until `held_until`.
    An `expected` row is an occurrence to come of a recurring task, which has a row of its own for the current one.
    `last_run` is that of an open task if it failed or expired; in a list of failures it has a `summary` and `attempts`.
    `attempt` and `max_attempts` are those of a run that is tried again, as in `duetime.task/1`. A `reminder` has come.
    A `step` names its `chain` by its title.
    """

    id: str
    title: str
    state: State
    when: str
    priority: Tier | None = None
    deadline: str | None = None
    paused: Literal[True] | None = None
    paused_until: str | None = None
    damaged: Literal[True] | None = None
    blocked: Literal[True] | None = None
    cancel_requested: Literal[True] | None = None
    why: str | None = None
    repeat: Literal[True] | None = None
    reminder: Literal[True] | None = None
    expected: Literal[True] | None = None
    event: str | None = None
    waits: tuple[RowWait, ...] | None = None
    held_until: str | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    last_run: LastRun | None = None
    chain: str | None = None
    step: str | None = None


class ClashMember(PayloadPart):
    """One occurrence that takes part in a clash, and how long it probably takes."""

    id: str
    when: str
    takes: str


class ClashPart(PayloadPart):
    """Occurrences that need more of a pool together than it has (`room`), from `at` on; the latest is the last."""

    pool: str
    room: str
    at: str
    occurrences: tuple[ClashMember, ...]


class TaskListPayload(PayloadPart):
    """One page of tasks, as `duetime.list/1`; `cursor` fetches the next page.

    `counts` are of the whole filter; of the states that are `at_least` so many there may be more. `failed` and
    `expired` are tasks whose latest run ended so, also where they are scheduled again. `failures` come newest first.
    A list that ends in the future has a row for each occurrence; `incomplete` if recurring tasks were too many.
    `overdue` says what due and running tasks of the page wait for where no process runs them.
    """

    schema_: Annotated[Literal["duetime.list/1"], Field(alias="schema")] = "duetime.list/1"
    tasks: tuple[ListRow, ...]
    counts: dict[State, int]
    at_least: tuple[State, ...] | None = None
    failures: Literal[True] | None = None
    clashes: tuple[ClashPart, ...] | None = None
    incomplete: Literal[True] | None = None
    overdue: str | None = None
    cursor: str | None = None
    unread: tuple[Unread, ...] | None = None
    unread_count: int | None = None
    quiet_count: int | None = None
    held_count: int | None = None
    held_until: str | None = None
    after: str | None = None
    before: str | None = None
    now: str | None = None


class WholeListRow(ListRow):
    """A row with what a program or a terminal has room for: the whole `title`, the wall time `local` in its `timezone`.

    `relative` says how far `when` is from now. `waiting_for` has `waits` in words. `error` is why a task failed,
    expired or is tried again. `chain_id` is the `chain` of a step.
    """

    local: str
    timezone: str
    relative: str
    action: str
    labels: tuple[str, ...]
    waiting_for: tuple[str, ...] | None = None
    error: str | None = None
    chain_id: str | None = None


class WholeClash(ClashPart):
    """A clash, and the same in words as `text`."""

    text: str


class WholeListPayload(TaskListPayload):
    """One page of tasks, as `duetime.list/1`, with nothing cut: the answer of the REST API, and of `list --json`.

    It has what the answer of the tool has, and a row has more. `counts` are of the whole filter; of the states that are
    `at_least` so many there may be more. `cursor` fetches the next page.
    """

    tasks: tuple[WholeListRow, ...]
    clashes: tuple[WholeClash, ...] | None = None

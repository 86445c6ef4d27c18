"""The structured content that cards, tools, REST and `--json` share: `duetime.task/1` and `duetime.list/1`.

What is absent is left out, never null. A reader has to ignore fields that it does not know: parts that come later are
added under the same schema, and the number rises only when a field changes its meaning.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from duetime.scheduler.task import DeliveryState, Notify, State, Tier
from pydantic import BaseModel, ConfigDict, Field

DRY_RUN_ID = "t_dryrun"
"""Stands where the id would be in the answer to a dry run, which stores nothing."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)


class When(_Part):
    """When the task is next due (or was, once it ended): the instant, the task's own wall time, and both in words.

    `local` is the wall time in the task's zone with its offset.
    """

    utc: str
    local: str
    timezone: str
    text: str
    relative: str


class DeadlinePart(_Part):
    """When the run must be finished, what happens past it (`type`, as the argument has it), and the time to spare.

    `local` is its wall time in the task's zone with its offset, `text` the same in words.
    `after` is the deadline as a span from when each run is due, where it was given so. `laxity_seconds` is what is left
    after the work itself: at 0 it has to start now, below it will be missed; absent once the run has ended.
    """

    utc: str
    local: str
    text: str
    type: str
    after: str | None = None
    laxity_seconds: int | None = None
    missed: Literal[True] | None = None


class Repeat(_Part):
    """How a task repeats: the canonical rule, words, and the next five occurrences in the task's zone with offset.

    `until` is the last moment at which it may run, in the same form; `runs_left` are those of `max_runs` to come, the
    one that waits or runs now included. `moved_from` is where the rule puts the next occurrence, if it was moved.
    """

    rule: str
    text: str
    until: str | None = None
    max_runs: int | None = None
    runs_left: int | None = None
    moved_from: str | None = None
    next: tuple[str, ...] = ()
    notes: tuple[str, ...] | None = None


class LastRun(_Part):
    """The latest run that ended; `summary` is what its handler said of it, or the error.

    `attempts` are those of one that failed or expired.
    """

    state: State
    ended: str | None = None
    summary: str | None = None
    attempts: int | None = None


class DeliveryPart(_Part):
    """Telling the user: `state` is the worst among the channels, `channel` names those that are in it."""

    channel: str
    state: DeliveryState
    error: str | None = None


class Unread(_Part):
    """An outcome that nobody has marked as read; `note` is what Duetime adds to it, such as that it came late."""

    task_id: str
    title: str | None = None
    text: str
    note: str | None = None
    state: State
    at: str


class AttemptPart(_Part):
    """One try of a run; `run` counts the runs of the task that have started, so that tries of different ones differ."""

    run: int | None = None
    number: int
    started: str
    ended: str | None = None
    outcome: str | None = None
    reason: str | None = None
    traceback: str | None = None


class EventPart(_Part):
    """A change to the task: its actor, its kind, its time and its reason.

    `via` is by which way a caller made it: `mcp 10.0.0.7`, `rest 10.0.0.7`, `cli ann`, `python` or `stdio`.
    `changes` maps what was changed to [before, after] in words, where an empty text stands for nothing; times are wall
    times of the task's zone.
    """

    at: str
    kind: str
    actor: str
    via: str | None = None
    reason: str | None = None
    from_state: Annotated[State | None, Field(alias="from")] = None
    to_state: Annotated[State | None, Field(alias="to")] = None
    changes: dict[str, tuple[str, ...]] | None = None


class ProgressPart(_Part):
    """Progress of a run: the part that is done, 0 to 1, and what its handler says of it."""

    part: float
    text: str | None = None


class WaitPart(_Part):
    """One reason of `waiting_for`, in the same order, for a reader that says it in words of its own.

    `until` is when it ends, if known; `after` what a handler wrote; `title` and `state` are those of the `task`.
    """

    kind: str
    pool: str | None = None
    until: str | None = None
    after: str | None = None
    task: str | None = None
    title: str | None = None
    state: State | None = None


class LogLinePart(_Part):
    """A line that a handler logged; `level` where that is not `info`, `attempt` where it is not the first."""

    at: str
    level: str | None = None
    attempt: int | None = None
    text: str


class LogPart(_Part):
    """The last lines that the handler of the latest run logged, oldest first; `older` where there are more of it."""

    lines: tuple[LogLinePart, ...]
    older: Literal[True] | None = None


class HistoryPart(_Part):
    """The attempts of a task and its events, newest first; `older` when there are more that were left out."""

    attempts: tuple[AttemptPart, ...] = ()
    events: tuple[EventPart, ...] = ()
    older: Literal[True] | None = None


class TaskPayload(_Part):
    """One task, as `duetime.task/1`.

    `attempt` counts the attempts of the current run that have started, `max_attempts` how many it may have: from the
    second on. `payload` (without the message) and `result`, which the latest attempt gave, are there where one task
    was asked for: with secrets as `***`, and cut for a model; so is `log`. `speech` says how it stands in
    sentences for a voice; it is in what programs read (REST, `--json`, the resource of a task), not in those of tools.
    """

    schema_: Annotated[Literal["duetime.task/1"], Field(alias="schema")] = "duetime.task/1"
    id: str
    revision: int
    title: str
    state: State
    paused: Literal[True] | None = None
    cancel_requested: Literal[True] | None = None
    damaged: Literal[True] | None = None
    action: str
    effect: str | None = None
    message: str | None = None
    when: When
    repeat: Repeat | None = None
    priority: Tier | None = None
    deadline: DeadlinePart | None = None
    estimate: str | None = None
    needs: dict[str, int] | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    progress: ProgressPart | None = None
    waiting_for: tuple[str, ...] | None = None
    waits: tuple[WaitPart, ...] | None = None
    last_run: LastRun | None = None
    payload: Any = None
    result: Any = None
    log: LogPart | None = None
    cost: str | None = None
    delivery: DeliveryPart | None = None
    notify: Notify | None = None
    labels: tuple[str, ...] | None = None
    owner: str
    created: bool | None = None
    warnings: tuple[str, ...] | None = None
    undo: str | None = None
    unread: tuple[Unread, ...] | None = None
    history: HistoryPart | None = None
    speech: str | None = None
    now: str


class TaskWords(_Part):
    """The words of an answer by kind, for a card in any language: `duetime/words` in `_meta`, which no model reads.

    `repeat` are the clauses of the recurrence, `sentences` the kind and the values of English texts of the answer. A
    card says what has no kind, or one that it does not know, as it is written.
    """

    repeat: tuple[dict[str, Any], ...] | None = None
    sentences: dict[str, dict[str, Any]] | None = None


class ListRow(_Part):
    """One line of a list: `when` and `deadline` are UTC, `title` is cut; the card reads the rest by id.

    An `expected` row is an occurrence to come of a recurring task, which has a row of its own for the current one.
    `last_run` is that of an open task if it failed or expired; in a list of failures it has a `summary` and `attempts`.
    `attempt` and `max_attempts` are those of a run that is tried again, as in `duetime.task/1`. A `reminder` has come.
    """

    id: str
    title: str
    state: State
    when: str
    priority: Tier | None = None
    deadline: str | None = None
    paused: Literal[True] | None = None
    damaged: Literal[True] | None = None
    repeat: Literal[True] | None = None
    reminder: Literal[True] | None = None
    expected: Literal[True] | None = None
    attempt: int | None = None
    max_attempts: int | None = None
    last_run: LastRun | None = None


class ClashMember(_Part):
    """One occurrence that takes part in a clash, and how long it probably takes."""

    id: str
    when: str
    takes: str


class ClashPart(_Part):
    """Occurrences that need more of a pool together than it has (`room`), from `at` on; the latest is the last."""

    pool: str
    room: str
    at: str
    occurrences: tuple[ClashMember, ...]


class TaskListPayload(_Part):
    """One page of tasks, as `duetime.list/1`; `cursor` fetches the next page.

    `counts` are of the whole filter; of the states that are `at_least` so many there may be more. `failed` and
    `expired` are tasks whose latest run ended so, also where they are scheduled again. `failures` come newest first.
    A list that ends in the future has a row for each occurrence; `incomplete` if recurring tasks were too many.
    `overdue` says what due tasks of the page wait for where no process starts them.
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
    after: str | None = None
    before: str | None = None
    now: str | None = None

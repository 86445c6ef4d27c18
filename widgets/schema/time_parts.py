"""The parts of a task that say when: its time, its deadline, its recurrence."""

from __future__ import annotations

from typing import Any, Literal, Self

from duetime.scheduler.task import State
from duetime.scheduler.views import CHAIN_ACTION
from duetime.widgets.schema.part import PayloadPart


class When(PayloadPart):
    """When the task is next due (or was, once it ended): the instant, the task's own wall time, and both in words.

    `local` is the wall time in the task's zone with its offset.
    """

    utc: str
    local: str
    timezone: str
    text: str
    relative: str


class DeadlinePart(PayloadPart):
    """When the run must be finished, what happens past it (`type`, as the argument has it), and the time to spare.

    `local` is its wall time in the task's zone with its offset, `text` the same in words. `after` is the deadline as a
    span from when each run is due, where it was given so. `laxity_seconds` is what is left after the work itself. At 0
    it has to start now, below it will be missed; absent once the run has ended.
    """

    utc: str
    local: str
    text: str
    type: str
    after: str | None = None
    laxity_seconds: int | None = None
    missed: Literal[True] | None = None


class ExtraRun(PayloadPart):
    """A run next to those of a series that comes before its next one, or runs now: when it is due, and by when done."""

    state: State
    when: When
    deadline: DeadlinePart | None = None


class RelativeDeadlinePart(PayloadPart):
    """The deadline of a run that waits: a span `after` it can start, so there is no instant yet; `text` says it whole.

    It becomes the `deadline` when the wait ends.
    """

    after: str
    text: str
    type: str

    @classmethod
    def of(cls, after: str, kind: str, action: str) -> Self:
        """Return the part of a task with this action; the deadline of a chain is that of its last steps."""
        whose = "its last step" if action == CHAIN_ACTION else "it"
        return cls(after=after, text=f"{after} after {whose} can start", type=kind)


class Repeat(PayloadPart):
    """Repetition of a task: the canonical rule, words, and the next five occurrences in the task's zone with offset.

    `until` is the last moment at which it may run, in the same form. `runs_left` are those of `max_runs` to come, the
    one that waits or runs now included. `moved_from` is where the rule puts the next occurrence, if it was moved. The
    `policy` has what is not as usual, `approval` what is asked before each run, `wait_for` the event that each awaits.
    """

    rule: str
    text: str
    until: str | None = None
    max_runs: int | None = None
    runs_left: int | None = None
    moved_from: str | None = None
    next: tuple[str, ...] = ()
    notes: tuple[str, ...] | None = None
    policy: dict[str, Any] | None = None
    approval: dict[str, Any] | None = None
    wait_for: dict[str, Any] | None = None

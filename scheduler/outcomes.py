"""The closed set of outcomes that a handler returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from duetime.scheduler.task import ApprovalAnswer, Json


@dataclass(frozen=True, slots=True)
class Done:
    """The work is done; `summary` is what the user reads, `result` is kept as JSON. A `quiet` one notifies nobody.

    `spawn` are further tasks, each given like a step of a chain, in JSON: what comes after this one waits for them too.
    """

    summary: str = ""
    result: Json = None
    quiet: bool = False
    spawn: Sequence[Mapping[str, Json]] = ()


class Spawn(Done):
    """The work is done, and continues in these tasks: `Spawn([{"name": "a", "action": "resize"}, ...])`."""

    __slots__ = ()

    def __init__(self, spawn: Sequence[Mapping[str, Json]], summary: str = "", result: Json = None) -> None:
        super().__init__(summary, result, spawn=tuple(spawn))


@dataclass(frozen=True, slots=True)
class Retry:
    """It failed this time; try again after `after` and the task's backoff, which is added to it. Counts as an attempt.

    `result` is kept as JSON until the next attempt ends.
    """

    reason: str
    after: timedelta | None = None
    result: Json = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until then; give the slot back and start again at `until` with `checkpoint`. Not a failure.

    It is for one of `until`, `approval` and `event`; the latter two end in time by `by` and `timeout`.

    With an `approval`, the question to the task's owner, it starts again once that is answered. `ctx.approval` has the
    answer, which is `default` when nobody has given one `by` then.

    With an `event`, the name of one, it starts again once that has been sent with the members of `match`; `ctx.event`
    has it. When `timeout` has passed without one, it starts again with `ctx.event_timed_out`. An event counts that has
    come since the attempt began; `lookback` says since when else.
    """

    until: datetime | timedelta | None = None
    reason: str = ""
    checkpoint: Json = None
    approval: str = ""
    by: datetime | timedelta = timedelta(days=7)
    default: ApprovalAnswer = ApprovalAnswer.REJECT
    event: str = ""
    match: Mapping[str, Json] = field(default_factory=dict)
    timeout: datetime | timedelta = timedelta(days=30)
    lookback: datetime | timedelta | None = None


@dataclass(frozen=True, slots=True)
class Yielded:
    """Gave way to other work; start again when there is room, with `checkpoint`. Not a failure."""

    checkpoint: Json = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """It cannot succeed; trying again would not help.

    With `expired` what it waited for did not come in time: it ends as expired, and has no dead letter.
    """

    reason: str
    result: Json = None
    expired: bool = False


Outcome = Done | Retry | Wait | Yielded | Failed

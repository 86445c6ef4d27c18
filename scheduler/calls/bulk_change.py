"""One call that changes many tasks, and what became of each of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Literal, Self

from duetime.scheduler.chain.change import ChainChange
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import EventKind
from duetime.scheduler.principal import Acting
from duetime.scheduler.records import FINAL_CANCEL, Change, LastChange
from duetime.scheduler.task import Json, Run, State
from duetime.scheduler.views import TaskRecord, after_pause, due_at

MAX_TASKS_CHANGED: Final = 10_000
"""Tasks that one call changes at most."""

MAX_TASKS_AT_ONCE: Final = 50
"""Tasks of one transaction, unless more of them follow from one another: other writers wait for no more than these."""

MAX_RELATED_TASKS_AT_ONCE: Final = 1_000
"""Tasks of one transaction that follow from one another."""

BULK_UNDO_WINDOW: Final = timedelta(minutes=10)
"""Time for which a change of many tasks can be taken back: people and agents look at what it did first."""


BULK_KEY_KEPT: Final = timedelta(days=30)
"""Time for which a call is known by its idempotency key."""

TAKEN_BACK_ALREADY: Final = "this change was taken back already."


class BulkVerb(StrEnum):
    """A change that one call makes to many tasks, or its undo."""

    CANCEL = "cancel"
    PAUSE = "pause"
    RESUME = "resume"
    MOVE = "move"
    REPLAY = "replay"
    DISCARD = "discard"
    UNDO = "undo"


BulkWord = BulkVerb | Literal["cancel", "pause", "resume", "move", "replay", "discard", "undo"]


class Became(StrEnum):
    """The result of a call for one task; of a dry run, the result that it would have."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The result for one task, which is now as `record` has it; `was` is when it was due before it was moved.

    `side_run_at` is when a recurring task runs in addition to its next occurrence. Then `was` is the time of the one
    that failed, or was moved past the next one. A changed task has a `why` where it falls on another.
    """

    record: TaskRecord
    became: Became
    why: str | None = None
    undo: str | None = None
    was: datetime | None = None
    side_run_at: datetime | None = None


def replaced_times(record: TaskRecord, after: TaskRecord, change: Change) -> tuple[datetime | None, datetime | None]:
    """Return when a changed task was due that is so `after` it, and when its side run is; None for the same time."""
    was, due = change.was or due_at(record.run), due_at(after.run)
    if change.next_run is None and change.run.state is State.CANCELLED:
        return None, None  # its next attempt was due at another time than its run, and neither comes
    if change.extra_run is not None and change.extra_run.slot is not None:  # moved past others
        return change.was or record.run.scheduled_for, change.extra_run.scheduled_for
    failed = record.failed_run or record.last_run
    if change.extra_run is not None and failed is not None:
        return failed.scheduled_for, change.extra_run.wake_at or change.extra_run.scheduled_for
    return was if was != (after_pause(after.task, due) if change.was else due) else None, None


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The result of one call, or that which it would have (`dry_run`); refused tasks come first.

    `undo` takes all of it back until `undo_until`. `repeated`: an earlier call with the same key did it, and some of it
    may be `taken_back`. `after` and `before` are the bounds of its filter, as they were read in `zone`. A pause with an
    end has `paused_until`. Of a dry run of very many tasks each was decided `alone`, as if nothing came after another
    one. A replay of a filter has `left` more tasks to another call.
    """

    verb: BulkVerb
    outcomes: tuple[TaskOutcome, ...]
    now: datetime
    dry_run: bool = False
    undo: str | None = None
    undo_until: datetime | None = None
    repeated: bool = False
    by_filter: bool = False
    after: datetime | None = None
    before: datetime | None = None
    paused_until: datetime | None = None
    alone: bool = False
    left: int = 0
    zone: str = "UTC"
    taken_back: bool = False

    @property
    def counts(self) -> Counter[Became]:
        """The number of tasks by what became of them."""
        return Counter(each.became for each in self.outcomes)

    def why_final(self, outcome: TaskOutcome) -> str | None:
        """Return why no undo takes the cancel of one of its tasks back, None where one does."""
        is_cancelled = self.verb is BulkVerb.CANCEL and outcome.became is Became.CHANGED
        final = is_cancelled and outcome.undo is None and not self.taken_back  # which forgets what was undone
        return why_cancel_is_final(outcome.record) if final else None


def why_cancel_is_final(record: TaskRecord) -> str:
    """Return why a task stays cancelled, or asked to stop, once it was cancelled."""
    if record.run.state is State.RUNNING:
        return f"it is asked to stop: {FINAL_CANCEL}"
    if record.run.started_at is None:
        return "a task before it has begun, so the cancel cannot be undone"
    return FINAL_CANCEL


def undid_nothing(done: Sequence[TaskOutcome], batch: StoredBatch) -> bool:
    """Whether an undo of a transaction left everything as it was: each task refused it, and so did its chain."""
    if batch.chain and not (done and all(each.became is Became.REFUSED for each in done)):
        return False
    return all(each.became is not Became.CHANGED for each in done)


@dataclass(frozen=True, slots=True)
class BulkDecision:
    """The decision about each task of a call: a pure function, the kind of its event, and what takes the change back.

    `decide` gets the latest change of a task where an undo needs it. `undo_of` gets a task as it is afterwards. A pause
    ends at `paused_until`, if it has an end. Of a chain `chain` is what changes of its own. A replay does `failed_runs`
    again, by task, and of other tasks the newest run with an open dead letter. `read_as` says how times were read.
    """

    verb: BulkVerb
    kind: EventKind
    decide: Callable[[TaskRecord, LastChange | None], Change]
    undo_of: Callable[[TaskRecord], str | None]
    paused_until: datetime | None = None
    chain: ChainChange | None = None
    failed_runs: Mapping[str, Run] = field(default_factory=dict)
    read_as: tuple[str, ...] = ()

    @property
    def takes_back(self) -> bool:
        """Whether it needs the latest change of each task."""
        return self.verb is BulkVerb.UNDO


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """One transaction of a call, as its repeat and its undo find it: tasks by id with what became of them.

    `undo` has the token that takes a task's change back. `left` are the tasks of later transactions, in the first one.
    `chain` is what changed of a chain itself. `last_event` is the id of the last event before the transaction ended.
    A replay of a filter has `left_out` more tasks to another call, in the first one too.
    """

    verb: BulkVerb
    arguments_digest: str
    token: str
    at: datetime
    became: Mapping[str, Became]
    why: Mapping[str, str]
    undo: Mapping[str, str]
    left: tuple[str, ...] = ()
    chain: ChainChange | None = None
    last_event: int | None = None
    left_out: int = 0
    is_taken_back: bool = False

    @property
    def has_changed(self) -> bool:
        """Whether it changed something, be it taken back or not."""
        return self.chain is not None or Became.CHANGED in self.became.values()

    @property
    def is_undoable(self) -> bool:
        """Whether something of it can be taken back."""
        return bool(self.undo) or self.chain is not None

    def outcome_of(self, record: TaskRecord) -> TaskOutcome:
        """Return what became of one of its tasks, which is now as `record` has it."""
        task_id = record.task.id
        return TaskOutcome(record, self.became[task_id], self.why.get(task_id), self.undo.get(task_id))

    def to_json(self) -> dict[str, Json]:
        """Return the batch as a row keeps it."""
        return {
            "verb": self.verb.value,
            "asked": self.arguments_digest,
            "token": self.token,
            "at": self.at.isoformat(),
            "became": {task_id: each.value for task_id, each in self.became.items()},
            "why": dict(self.why),
            "undo": dict(self.undo),
            "left": list(self.left),
            **({"chain": self.chain.to_json()} if self.chain else {}),
            **({"event": self.last_event} if self.last_event is not None else {}),
            **({"left_out": self.left_out} if self.left_out else {}),
            **({"taken_back": True} if self.is_taken_back else {}),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        became = {task_id: Became(word) for task_id, word in stored["became"].items()}
        return cls(
            BulkVerb(stored["verb"]),
            stored["asked"],
            stored["token"],
            datetime.fromisoformat(stored["at"]),
            became,
            stored["why"],
            stored["undo"],
            tuple(stored["left"]),
            ChainChange.from_json(stored["chain"]) if stored.get("chain") else None,
            stored.get("event"),
            stored.get("left_out", 0),
            stored.get("taken_back", False),
        )

    def taken_back(self) -> Self:
        """Return the batch as it is after its undo: its call stays known, and nothing of it can be taken back."""
        return replace(self, undo={}, chain=None, is_taken_back=True)


@dataclass(frozen=True, slots=True)
class BatchWrite:
    """The way in which one transaction is stored: as the `number`th of its call, with its actor and its reason.

    It is kept until `keep_until`. A repeat without a key finds it by its `repeat_name`. `seen` is the token of the
    latest call of that name when this one was decided. Of an undo it is a part of several.
    """

    batch: StoredBatch
    number: int
    keep_until: datetime
    acting: Acting
    reason: str | None = None
    is_part: bool = False
    repeat_name: str | None = None
    seen: str | None = None


class EqualCallAtOnce(StoreUnavailable):
    """Another call of the same name was stored since this one was decided; the transaction changed nothing."""

    def __init__(self) -> None:
        super().__init__("The same call was made at this moment. Nothing was changed; try again.")

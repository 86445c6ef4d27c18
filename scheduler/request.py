"""The arguments of a call that schedules, before anything is understood."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import date, timedelta
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, Literal, Protocol, Required, Self, TypedDict

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.task import ApprovalRequest, DeadlineType, Json, Notify, Penalty, RetryPolicy, Tier

POOL_PREFIXES: Final = ("key:", "tenant:")
"""Prefixes of pools that `needs` may name undeclared: they are made on use, from a template."""

DEADLINE_KINDS: Final[Mapping[str, tuple[DeadlineType, Penalty]]] = {
    "hard": (DeadlineType.HARD, Penalty.NONE),
    "soft": (DeadlineType.SOFT, Penalty.NONE),
    "soft-linear": (DeadlineType.SOFT, Penalty.LINEAR),
    "soft-step": (DeadlineType.SOFT, Penalty.STEP),
}
"""Values of `deadline_type`: the kind of a deadline and the penalty for missing it, as one word."""

Moment = str | date | timedelta
"""A time as a caller gives it: words, a date (or a datetime, which is one too), or a span from now."""


class PayloadModel(Protocol):
    """A pydantic model, of which type checkers alone need to know."""

    def model_dump_json(self) -> str: ...


GivenPayload = Mapping[str, Json] | PayloadModel
"""A payload as a caller gives it: JSON values by name, or a model of them."""
RETRY_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "max_attempts": (1, 100),
    "backoff_seconds": (1, 86_400),
    "max_backoff_seconds": (1, 604_800),
}
"""The members of `retry` as tools and commands take it, each with its least and greatest number."""
RETRY_ACCEPTED: Final = (
    "an object with max_attempts (1 to 100), backoff_seconds and max_backoff_seconds, or words: '5 times, 30 s apart'"
)
RetryWords = RetryPolicy | Mapping[str, int | str] | str | int
"""A retry policy, its members, or words for it, as the Python API takes it."""
PriorityWord = Tier | Literal["critical", "high", "normal", "low", "background"]
NotifyWord = Notify | Literal["always", "failure", "change", "never"]
DeadlineWord = Literal["hard", "soft", "soft-linear", "soft-step"]
"""The keys of `DEADLINE_KINDS`, for type checkers; a test compares them."""


class AfterFailure(StrEnum):
    """The effect on a run when a task that it comes after ends without success."""

    FAIL = "fail"
    SKIP = "skip"
    RUN_ANYWAY = "run_anyway"


AfterFailureWord = AfterFailure | Literal["fail", "skip", "run_anyway"]

ActionOnTask = Literal["snooze", "run_now", "skip_next", "undo", "done", "approve", "reject"]
ACTIONS_OF_AGENTS: Final = ("snooze", "run_now", "skip_next", "undo", "done")
"""Actions of buttons that a model may call. The answers to an approval are missing: no agent approves its own work."""

REMINDER_ACTION = "reminder"  # delivers a message, and does no work
NEVER_REMINDS: Final = frozenset({Notify.NEVER, Notify.FAILURE})
"""Values of `notify` that silence a reminder, whose runs only ever succeed."""

_ENCODE = json.JSONEncoder(default=str, sort_keys=True).encode
_DECODE = json.JSONDecoder().decode


def never_reminds(action: str, notify: NotifyWord | None) -> bool:
    """Whether a task is a reminder that notifies nobody."""
    return action == REMINDER_ACTION and notify in NEVER_REMINDS


class StepArguments(TypedDict, total=False):
    """One step of a chain: its name, and arguments of its task as in `Request`; `after` may name other steps too."""

    name: Required[str]
    action: str
    payload: GivenPayload
    after: Sequence[str]
    after_failure: AfterFailureWord
    valid_output: Mapping[str, Json]
    needs: Mapping[str, int]
    estimate: str | float | timedelta
    title: str
    when: Moment
    timezone: str
    retry: RetryWords
    priority: PriorityWord
    deadline: Moment
    deadline_type: DeadlineWord
    notify: NotifyWord
    expect: Mapping[str, Json]
    on_failure: Mapping[str, Json]
    labels: Sequence[str]
    deliver_to: Sequence[str]
    approval: ApprovalRequest | str | bool
    wait_for: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """The arguments of one schedule call; docs/tools.md says what each accepts.

    A naive datetime is a wall time in `timezone`; a timedelta counts from now, but for `deadline` from when a run is
    due. A number as `estimate` counts seconds. Of `steps` each gets all but action, payload, estimate and needs, and
    the last ones get `expect`. An `approval` that is True asks without an end. `raw` are the arguments as an agent sent
    them: without an `idempotency_key`, a repeat within 60 s returns the first task.
    """

    title: str
    when: Moment | None = None
    timezone: str | None = None
    repeat: str | None = None
    until: Moment | None = None
    max_runs: int | None = None
    action: str = REMINDER_ACTION
    payload: GivenPayload = field(default_factory=dict)
    priority: PriorityWord | None = None
    deadline: Moment | None = None
    deadline_type: DeadlineWord | None = None
    estimate: str | float | timedelta | None = None
    needs: Mapping[str, int] | None = None
    idempotency_key: str | None = None
    retry: RetryPolicy | Mapping[str, int] | None = None
    deliver_to: Sequence[str] = ()
    labels: Sequence[str] = ()
    notify: NotifyWord | None = None
    expect: Mapping[str, Json] | None = None
    on_failure: Mapping[str, Json] | None = None
    after: Sequence[str] = ()
    after_failure: AfterFailureWord | None = None
    valid_output: Mapping[str, Json] | None = None
    steps: Sequence[StepArguments] | None = ()
    repeat_policy: Mapping[str, Any] | None = None
    approval: ApprovalRequest | str | bool | None = None
    wait_for: Mapping[str, Any] | None = None
    origin: Mapping[str, str] | None = None
    dry_run: bool = False
    raw: Mapping[str, Json] | None = None

    @classmethod
    def of(cls, title: str, arguments: ScheduleArguments) -> Self:
        """Return the request of a call, where None stands for an argument that is absent."""
        given: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
        return cls(title, **given)

    @property
    def has_terms(self) -> bool:
        """Whether it says anything of its retries, channels, labels or notices, as few requests do."""
        return bool(_TERMS(self) != _NO_TERMS)

    def content(self) -> dict[str, Json]:
        """Return what identifies the request: the arguments as sent; a key of the caller's holds for any origin."""
        given = dict(self.raw) if self.raw is not None else self._given()
        if self.origin:
            given["origin"] = self.origin
        for name in ("idempotency_key", "dry_run", *(("origin",) if self.idempotency_key is not None else ())):
            given.pop(name, None)
        return as_content(given)

    def _given(self) -> dict[str, Any]:
        values = zip(_FIELDS, _VALUES(self), strict=True)
        return {name: value for name, value in values if value is not None and value not in ("", (), {}, [])}


_FIELDS = tuple(item.name for item in fields(Request) if item.name != "raw")
_VALUES = attrgetter(*_FIELDS)
_TERMS, _NO_TERMS = attrgetter("retry", "deliver_to", "labels", "notify"), (None, (), (), None)


def as_content(given: Mapping[str, Any]) -> dict[str, Json]:
    """Return the arguments of a call as JSON, by which a repeat of it is known."""
    try:
        content: dict[str, Json] = _DECODE(_ENCODE(dict(given)))
    except (ValueError, RecursionError):
        raise InvalidArgument(_endless(given), "it contains itself, or is nested too deeply") from None
    return content


def _endless(given: Mapping[str, Any]) -> str:
    """Return the name of the argument that cannot be written as JSON, as it contains itself or is nested too deep."""
    for name, value in given.items():
        try:
            _ENCODE(value)
        except (ValueError, RecursionError):
            return name
    return "arguments"


class TaskArguments(TypedDict, total=False):
    """The arguments that a new task and a change of one have in common."""

    when: Moment | None
    timezone: str | None
    repeat: str | None
    until: Moment | None
    max_runs: int | None
    priority: PriorityWord | None
    deadline: Moment | None
    deadline_type: DeadlineWord | None
    estimate: str | float | timedelta | None
    needs: Mapping[str, int] | None
    retry: RetryWords | None
    notify: NotifyWord | None
    expect: Mapping[str, Json] | None
    on_failure: Mapping[str, Json] | None
    repeat_policy: Mapping[str, Any] | None
    origin: Mapping[str, str] | None


class ScheduleArguments(TaskArguments, total=False):
    """The keyword arguments of `Scheduler.schedule`: the fields of `Request` but the title."""

    action: str | None
    payload: GivenPayload | None
    idempotency_key: str | None
    deliver_to: Sequence[str] | None
    labels: Sequence[str] | None
    after: Sequence[str] | None
    after_failure: AfterFailureWord | None
    valid_output: Mapping[str, Json] | None
    steps: Sequence[StepArguments] | None
    approval: ApprovalRequest | str | bool | None
    wait_for: Mapping[str, Any] | None
    dry_run: bool | None
    raw: Mapping[str, Json] | None

"""The arguments of a call that changes a task, before anything is understood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Self, TypedDict, cast

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import Principal
from duetime.scheduler.request import (
    AfterFailureWord,
    DeadlineWord,
    GivenPayload,
    Moment,
    NotifyWord,
    PriorityWord,
    TaskArguments,
    as_content,
)
from duetime.scheduler.task import ApprovalRequest, Json, RetryPolicy

_OF_WORK: Final = ("payload", "needs", "labels", "deliver_to", "retry", "max_runs")
REMOVABLE_ARGUMENTS: Final = (*_OF_WORK, "repeat_policy", "expect", "on_failure", "after", "wait_for")
"""Values of `remove`: the parts of a task that an empty value cannot empty, as that stands for an absent one."""

REMOVED_BY_VALUE: Final = {
    "deadline": "deadline='none'",
    "repeat": "repeat='never'",
    "until": "until='never'",
    "priority": "priority='normal'",
    "notify": "notify='always'",
    "estimate": "estimate='none'",
}
"""Arguments that a value of their own removes, as it is passed."""


class RescheduleArguments(TaskArguments, total=False):
    """The arguments of `Scheduler.reschedule`: the fields of `Reschedule`."""

    title: str | None
    payload: GivenPayload | None
    deliver_to: Sequence[str] | None
    labels: Sequence[str] | None
    after: Sequence[str] | None
    after_failure: AfterFailureWord | None
    valid_output: Mapping[str, Json] | None
    approval: ApprovalRequest | str | bool | None
    wait_for: Mapping[str, Any] | None
    remove: Sequence[str] | None
    pause: bool | None
    pause_until: Moment | None
    skip_next: bool | None
    all_following: bool | None


class CallArguments(TypedDict, total=False):
    """The keyword arguments of every call that changes a task: what it is based on, who calls, and what repeats it.

    `revision` refuses the change when the task is not at it any more. A repeat is known by `idempotency_key`, or within
    60 s by `raw`, the arguments as an agent sent them.
    """

    revision: int | None
    idempotency_key: str | None
    raw: Mapping[str, Json] | None
    by: Principal


class RescheduleCall(RescheduleArguments, CallArguments, total=False):
    """The keyword arguments of `Scheduler.reschedule`; with `dry_run` it only returns what the task would be."""

    dry_run: bool | None


@dataclass(frozen=True, slots=True)
class Reschedule:
    """The arguments of one reschedule call: None leaves a value as it is.

    With `all_following`, `when` moves the whole series of a recurring task there, else its next occurrence alone.
    Links of a task change until it has started. `remove` names what goes back to what it is for a task that was
    scheduled without it, of `REMOVABLE_ARGUMENTS`.
    """

    title: str | None = None
    when: Moment | None = None
    timezone: str | None = None
    repeat: str | None = None
    until: Moment | None = None
    max_runs: int | None = None
    payload: GivenPayload | None = None
    priority: PriorityWord | None = None
    deadline: Moment | None = None
    deadline_type: DeadlineWord | None = None
    estimate: str | float | timedelta | None = None
    needs: Mapping[str, int] | None = None
    retry: RetryPolicy | Mapping[str, int] | None = None
    deliver_to: Sequence[str] | None = None
    labels: Sequence[str] | None = None
    notify: NotifyWord | None = None
    expect: Mapping[str, Json] | None = None
    on_failure: Mapping[str, Json] | None = None
    repeat_policy: Mapping[str, Any] | None = None
    after: Sequence[str] | None = None
    after_failure: AfterFailureWord | None = None
    valid_output: Mapping[str, Json] | None = None
    approval: ApprovalRequest | str | bool | None = None
    wait_for: Mapping[str, Any] | None = None
    remove: Sequence[str] = ()
    pause: bool | None = None
    pause_until: Moment | None = None
    origin: Mapping[str, str] | None = None
    skip_next: bool = False
    all_following: bool = False

    @classmethod
    def of(cls, arguments: RescheduleArguments) -> Self:
        """Return what a call changes, where None stands for an argument that is absent."""
        given: dict[str, Any] = {name: value for name, value in arguments.items() if value is not None}
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Repeatable:
    """A call that changes a task, as far as a repeat of it is known by that; `arguments` are what a program gave."""

    name: str
    task_id: str
    arguments: Mapping[str, Any]
    idempotency_key: str | None = None
    raw: Mapping[str, Json] | None = None

    @classmethod
    def of(cls, name: str, task_id: str, arguments: Mapping[str, Any], call: CallArguments) -> Repeatable:
        given = {**arguments, "revision": call.get("revision")}
        return cls(name, task_id, given, call.get("idempotency_key"), call.get("raw"))

    def without(self, name: str) -> Self:
        """Return the same call without a raw argument."""
        raw = self.raw
        return self if raw is None else replace(self, raw={each: raw[each] for each in raw if each != name})

    def content(self) -> dict[str, Json]:
        """Return what identifies the call; a key of the caller's holds whatever revision the call is based on."""
        given = {name: value for name, value in self.arguments.items() if value is not None}
        given = dict(self.raw) if self.raw is not None else given
        left_out = {"idempotency_key", *(("revision",) if self.idempotency_key is not None else ())}
        arguments = {name: value for name, value in given.items() if name not in left_out}
        return as_content({**arguments, "call": self.name, "task_id": self.task_id})


def split_arguments(arguments: RescheduleCall) -> tuple[CallArguments, RescheduleArguments]:
    """Split the arguments of a reschedule: those of every call, and what it is to change."""
    wanted: dict[str, Any] = dict(arguments)
    call = {name: wanted.pop(name) for name in CallArguments.__annotations__ if name in wanted}
    return cast("CallArguments", call), cast("RescheduleArguments", wanted)


_EMPTY: Mapping[str, Any] = {
    "payload": {},
    "needs": {},
    "labels": (),
    "deliver_to": (),
    "expect": {},
    "on_failure": {},
    "after": (),
    "wait_for": {},
}


def with_removed(request: Reschedule) -> Reschedule:
    """Return the arguments with what `remove` names as empty values, where these say it."""
    for name in request.remove:
        if name not in REMOVABLE_ARGUMENTS:
            example = REMOVED_BY_VALUE.get(name, "remove=['needs']")
            raise _wrong_removal(f"{str(name)[:40]!r} cannot be removed", example)
        if getattr(request, name) is not None:
            others = [each for each in request.remove if getattr(request, each, None) is None]
            raise _wrong_removal(f"{name} is also given", f"remove={others or 'null'}")
    emptied = {name: empty for name, empty in _EMPTY.items() if name in request.remove}
    return replace(request, **emptied, remove=tuple(request.remove))


def _wrong_removal(problem: str, example: str) -> InvalidArgument:
    return InvalidArgument("remove", problem, accepted=f"a list of {', '.join(REMOVABLE_ARGUMENTS)}", example=example)

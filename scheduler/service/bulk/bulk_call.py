"""One call that changes many tasks: its arguments and their checks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self, TypedDict

from duetime.scheduler.calls.bulk_change import (
    BULK_UNDO_WINDOW,
    MAX_TASKS_CHANGED,
    Became,
    BulkDecision,
    BulkResult,
    BulkVerb,
    BulkWord,
    StoredBatch,
    TaskOutcome,
)
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.ids import new_id
from duetime.scheduler.intake.bounds import Bound
from duetime.scheduler.intake.validation import check_filter, check_key_text, check_reason, tenant_changed
from duetime.scheduler.principal import LOCAL, Principal
from duetime.scheduler.request import Moment, as_content
from duetime.scheduler.task import Json, Task
from duetime.scheduler.views import TaskFilter, TaskRecord

MAX_TITLES_SAID = 3
PAUSE_BETWEEN_PARTS_S = 0.01
"""Pause between two transactions, so that other writers of a SQLite file, which poll its lock, get their turn."""

ALL_TASKS = TaskFilter()


class BulkArguments(TypedDict, total=False):
    """The keyword arguments of `BulkService.change`; `raw` as in `Request`, `tenant` of an undo by an operator.

    The end of a pause is read in `timezone`, without one in the user's.
    """

    after: Bound | None
    before: Bound | None
    to: Moment | None
    timezone: str | None
    undo: str | None
    reason: str | None
    expect: int | None
    dry_run: bool
    idempotency_key: str | None
    raw: Mapping[str, Json] | None
    tenant: str | None
    max_letters: int | None
    by: Principal


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkCall:
    """The arguments of one call, and its caller; `raw` as in `Request`. The audit log has it as `said`, or its verb."""

    verb: BulkVerb
    task_ids: tuple[str, ...] = ()
    where: TaskFilter = ALL_TASKS
    to: Moment | None = None
    timezone: str | None = None
    undo: str | None = None
    reason: str | None = None
    expect: int | None = None
    idempotency_key: str | None = None
    raw: Mapping[str, Json] | None = None
    tenant: str | None = None
    max_letters: int | None = None
    by: Principal = field(default=LOCAL, compare=False)
    audit_verb: str | None = None

    @property
    def of_tenant(self) -> str:
        """The tenant whose tasks are changed."""
        return self.tenant or self.by.tenant

    @classmethod
    def of(cls, change: BulkWord, task_ids: Sequence[str], where: TaskFilter, arguments: BulkArguments) -> Self:
        """Check the arguments of a call, less the bounds of its filter."""
        names = ("to", "timezone", "undo", "reason", "expect", "idempotency_key", "raw", "tenant", "max_letters", "by")
        given: dict[str, Any] = {name: value for name, value in arguments.items() if name in names}
        call = cls(verb=verb_of(change), task_ids=tuple(dict.fromkeys(task_ids)), where=where, **given)
        check_reason(call.reason)
        check_filter(where)
        check_key_text(call.idempotency_key)
        check_choice(call)
        tenant_changed(call.by, call.tenant)
        return call

    def arguments_digest(self) -> str:
        """Return a digest of the arguments, by which a repeated call is recognised."""
        apart = {"by", "tenant", "raw", "idempotency_key", "where", "audit_verb"}
        apart |= {name for name in ("max_letters", "timezone") if getattr(self, name) is None}
        given = {name: value for name, value in asdict(self).items() if name not in apart}
        content = as_content({**given, "where": asdict(self.where)} if self.raw is None else dict(self.raw))
        content.pop("idempotency_key", None)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def repeat_name(self) -> str | None:
        """The name of all equal calls of the caller, by which a repeat finds the latest; None for any other call."""
        if self.raw is None or self.idempotency_key is not None or self.verb is BulkVerb.UNDO:
            return None
        return _digest_of(["raw", self.by.user, self.arguments_digest()])

    def new_token(self) -> str:
        """Return the token that takes the call back: of a keyed call and of an undo always the same."""
        if self.idempotency_key is not None:
            return token_of_key(self.idempotency_key)
        if self.verb is BulkVerb.UNDO:
            return f"u_b{_digest_of(['undo', self.undo])[:20]}"
        return f"u_b{new_id('b')[2:]}"


def token_of_key(key: str) -> str:
    """Return the token that takes a call with this idempotency key back."""
    return f"u_b{_digest_of(['key', key])[:20]}"


def _digest_of(name: Sequence[str | None]) -> str:
    return hashlib.sha256(json.dumps(name).encode()).hexdigest()


def verb_of(change: BulkWord) -> BulkVerb:
    try:
        return BulkVerb(change)
    except ValueError:
        accepted = ", ".join(BulkVerb)
        raise InvalidArgument(
            "change", "there is no such change", accepted=accepted, example="change='cancel'"
        ) from None


def check_choice(call: BulkCall) -> None:
    """Refuse a call that names tasks and gives a filter as well, and an undo without its token."""
    if call.task_ids and call.where != ALL_TASKS:
        raise InvalidArgument(
            "task_ids", "a filter is given as well", accepted="tasks by id, or a filter", example="task_ids=null"
        )
    if (call.verb is BulkVerb.UNDO) != (call.undo is not None):
        raise _no_undo(call)
    if call.tenant is not None and call.verb is not BulkVerb.UNDO:
        raise InvalidArgument("tenant", "only an undo takes it", accepted="tasks of your own tenant")
    if call.timezone is not None and (call.verb is not BulkVerb.PAUSE or call.to is None):
        raise InvalidArgument(
            "timezone",
            "only the end of a pause is read in it",
            accepted="a zone together with that end",
            example="change='pause', to='9am', timezone='Europe/Berlin'",
        )
    if len(call.task_ids) > MAX_TASKS_CHANGED:
        raise InvalidArgument("task_ids", "too many", accepted=f"up to {MAX_TASKS_CHANGED:,}")


def _no_undo(call: BulkCall) -> InvalidArgument:
    """Return the refusal of an undo without its token, or of the token of another change; no example knows a token."""
    problem = "an undo takes the token of the change, and nothing else does"
    example = "" if call.undo is None else f"undo=null or change='undo', undo={call.undo!r}"
    return InvalidArgument("undo", problem, accepted="the `undo` in the answer to the change", example=example)


def refuse_dry_run(dry_run: bool) -> None:
    """Refuse the dry run of an undo. Raises InvalidArgument."""
    if dry_run:
        raise InvalidArgument(
            "dry_run",
            "an undo has no dry run",
            accepted="an undo without it, which leaves a task as it is that was changed again since",
            example="dry_run=false",
        )


def check_expected(call: BulkCall, records: Sequence[TaskRecord], others: Callable[[], str] = str) -> None:
    """Refuse a call that means another number of tasks than it expects; `others` says why some are not meant."""
    if call.expect is None or call.expect == len(records):
        return
    match = "1 task matches" if len(records) == 1 else f"{len(records)} tasks match"
    titles = ", ".join(repr(record.task.title[:40]) for record in records[:MAX_TITLES_SAID])
    named = f" ({titles}{', ...' if len(records) > MAX_TITLES_SAID else ''})" if records else ""
    raise InvalidArgument(
        "expect",
        f"{match}, not {call.expect}{named}{others()}; nothing was changed",
        accepted="the number of a dry run",
        example="dry_run=true",
    )


def filter_given(where: TaskFilter) -> tuple[str, str]:
    """Return the first part of a filter that a caller gave, as an argument and its value."""
    given = {"query": where.query, "label": where.label, "action": where.action, "priority": where.tier}
    named = {**given, "state": ", ".join(where.states) or where.standing}
    return next(((name, str(value)) for name, value in named.items() if value), ("query", ""))


def is_meant(task: Task, verb: BulkVerb, decision: BulkDecision | None) -> bool:
    """Whether a filter means one of the tasks that it matches: a pause or a resume changes nothing of the others.

    A pause with an end leaves those paused that somebody paused without one.
    """
    if verb is BulkVerb.RESUME:
        return task.paused
    until = decision.paused_until if decision else None
    return verb is not BulkVerb.PAUSE or not task.paused or task.paused_until not in {None, until}


def audit_detail(call: BulkCall) -> dict[str, Any]:
    """Return the other arguments of a call, for the audit log."""
    given = {"to": call.to, **(asdict(call.where) if call.where != ALL_TASKS else {})}
    return {name: str(value) for name, value in given.items() if value not in (None, ())}


def in_order(outcomes: Sequence[TaskOutcome]) -> tuple[TaskOutcome, ...]:
    """Return the outcomes with refused tasks first, then those with a note, as these need attention."""
    return tuple(sorted(outcomes, key=lambda each: (each.became is not Became.REFUSED, each.why is None)))


def with_undo(result: BulkResult, found: Sequence[StoredBatch]) -> BulkResult:
    """Return the result with what takes it back: the transactions of the call, as far as they are not taken back."""
    result = replace(result, taken_back=any(each.is_taken_back for each in found))
    if not any(each.is_undoable for each in found):
        return result
    return replace(result, undo=found[0].token, undo_until=found[0].at + BULK_UNDO_WINDOW)

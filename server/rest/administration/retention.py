"""Retention of an installation, for operators: the rules of its settings, and a run of them."""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import Annotated, Final, Literal

from duetime.scheduler.dispatch.retention_run import count_due, delete_due, kinds_with_rules
from duetime.scheduler.history.retention import RetentionKind
from duetime.scheduler.principal import Scope
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.installation import REASON
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.settings.options import former_rules, retention_policy
from duetime.tools.admin.retention_rows import run_json, status_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choices
from duetime.tools.arguments.types import Flag
from pydantic import Field

RUN_TIME_S: Final = 10.0
"""Seconds that one request deletes for at most: no proxy cuts it off, and a repeated one continues."""


class RulePayload(RestPayload):
    """A rule: rows of a kind may go at this age; `states` and `tenant` narrow it. Without an age they stay.

    A former one has its last day, in UTC, as `until`.
    """

    what: RetentionKind
    age_days: float | None = None
    states: tuple[str, ...]
    tenant: str | None = None
    unread: bool
    until: str | None = None


class SweepPayload(RestPayload):
    """The last sweep of a kind of rows: when it ended, how many rows it deleted, and what stopped it."""

    what: RetentionKind
    finished_at: str
    deleted: int
    problem: str | None = None


class RetentionPayload(RestPayload):
    """The rules of retention, and the last sweeps; `archive` is where rows are written before they go.

    `former_rules` delete nothing: a verification of the audit log accepts what they deleted until their last day.
    """

    schema_: Annotated[Literal["duetime.retention/1"], Field(alias="schema")] = "duetime.retention/1"
    rules: tuple[RulePayload, ...]
    former_rules: tuple[RulePayload, ...]
    archive: str | None = None
    sweeps: tuple[SweepPayload, ...]


class RetentionRunPayload(RestPayload):
    """The rows that a run deleted, or would delete, by rule and table. Unless it is `complete`, repeat the request.

    `problems` says what stopped a rule, such as an archive that cannot be written; the others went on.
    """

    schema_: Annotated[Literal["duetime.retention_run/1"], Field(alias="schema")] = "duetime.retention_run/1"
    dry_run: bool
    complete: bool
    rows: dict[RetentionKind, dict[str, int]]
    longest_batch_seconds: float
    problems: dict[RetentionKind, str] | None = None


def retention(call: RestCall) -> RestAnswer:
    """Return the rules of retention."""
    settings, sweeps = call.parts.settings, call.parts.store.retention.last_sweeps().values()
    found = status_json(retention_policy(settings), former_rules(settings), sweeps)
    return RestAnswer(RetentionPayload.model_validate(found))


def run(call: RestCall) -> RestAnswer:
    """Delete now what the rules allow to be deleted, or count it."""
    store, policy = call.parts.store, retention_policy(call.parts.settings)
    kinds = kinds_with_rules(policy, [RetentionKind(each) for each in call.values.get("only", ())])
    if call.values.get("dry_run"):
        return RestAnswer(RetentionRunPayload.model_validate(run_json(count_due(store, policy, kinds))))
    notifier, reason = call.parts.observers.attached(RunNotifier()), call.values.get("reason")
    end = time.monotonic() + RUN_TIME_S
    done = delete_due(
        store, policy, kinds, notifier, by=call.by, reason=reason, has_time=lambda: time.monotonic() < end
    )
    return RestAnswer(RetentionRunPayload.model_validate(run_json(done)))


OF_RETENTION = (
    Operation(
        "get_retention",
        "GET",
        "/retention",
        "List the rules of retention, and when each kind of rows was last looked through",
        retention,
        RetentionPayload,
        Scope.ADMIN_READ,
        for_operators=True,
    ),
    Operation(
        "run_retention",
        "POST",
        "/retention/run",
        "Delete now what the rules of retention allow to be deleted, for 10 s at most; repeat it until it is complete",
        run,
        RetentionRunPayload,
        Scope.ADMIN,
        body=(
            Argument("dry_run", Flag(), "Count what would be deleted, and delete nothing", "dry_run=true"),
            Argument("only", Choices(tuple(RetentionKind)), "Only these kinds of rows", "only=['events']"),
            REASON,
        ),
        statuses=(HTTPStatus.CONFLICT,),
        for_operators=True,
    ),
)

"""The policy of an installation, for operators: show it, change it, its versions, roll back."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from duetime.scheduler.dispatch.policy_registry import PolicyChange
from duetime.scheduler.principal import Scope
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.words.json_examples import as_member, with_examples
from duetime.tools.admin.policy_rows import change_json, history_json, policy_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Flag, Object, Text, Whole
from pydantic import Field


class PolicyPayload(RestPayload):
    """The policy in force: its numbers by part and tier; version 0 is the default, which nobody has changed."""

    schema_: Annotated[Literal["duetime.policy/1"], Field(alias="schema")] = "duetime.policy/1"
    version: int
    at: str | None = None
    actor: str | None = None
    via: str | None = None
    reason: str | None = None
    policy: dict[str, Any]


class PolicyVersionPayload(RestPayload):
    """A version of the policy: who set it, when, why, and a line for each number that it changed."""

    version: int
    at: str
    actor: str
    via: str | None = None
    reason: str | None = None
    policy: dict[str, Any]
    changes: tuple[str, ...]


class PolicyHistoryPayload(RestPayload):
    """The newest versions of the policy, the one in force first."""

    schema_: Annotated[Literal["duetime.policy_history/1"], Field(alias="schema")] = "duetime.policy_history/1"
    versions: tuple[PolicyVersionPayload, ...]


class PolicyChangePayload(RestPayload):
    """A change of the policy, without a `version` where it was only tried or changes nothing.

    So many waiting runs get new places in the order.
    """

    schema_: Annotated[Literal["duetime.policy_change/1"], Field(alias="schema")] = "duetime.policy_change/1"
    version: int | None = None
    changes: tuple[str, ...]
    waiting_runs_with_new_keys: int


def policy(call: RestCall) -> RestAnswer:
    """Return the policy in force."""
    policies = call.parts.registry.policies
    found = policies.refresh()
    payload = PolicyPayload.model_validate(policy_json(found, next(iter(policies.history(1)), None)))
    return RestAnswer(payload, revision=found.version)


def history(call: RestCall) -> RestAnswer:
    """Return the newest versions of the policy."""
    return RestAnswer(PolicyHistoryPayload.model_validate(history_json(call.parts.registry.policies.history())))


def change(call: RestCall) -> RestAnswer:
    """Change numbers of the policy in all processes."""
    with with_examples(as_member("policy")):
        made = call.parts.registry.policies.set(call.values["policy"], **_given(call))
    return _changed(call, made)


def roll_back(call: RestCall) -> RestAnswer:
    """Make an earlier version of the policy the newest one."""
    return _changed(call, call.parts.registry.policies.roll_back(call.values["version"], **_given(call)))


def _given(call: RestCall) -> dict[str, Any]:
    dry_run = call.values.get("dry_run", False)
    return {"by": call.by, "reason": call.values.get("reason"), "dry_run": dry_run, "based_on": call.revision}


def _changed(call: RestCall, change: PolicyChange) -> RestAnswer:
    call.parts.runner.wake()
    waiting = sum(tier.waiting for tier in call.parts.backlog.report().tiers)
    payload = PolicyChangePayload.model_validate(change_json(change, waiting))
    version = change.version if change.version is not None else call.parts.registry.policies.known().version
    return RestAnswer(payload, revision=version)


_EXAMPLE = "policy={'patience': {'normal': '2 minutes'}}"
_HOW = (
    Argument("reason", Text(200), "Why, for the history and the audit log", "reason='chats wait for them'"),
    Argument("dry_run", Flag(), "Only say what would change", "dry_run=true"),
)
OF_POLICY = (
    Operation(
        "get_policy",
        "GET",
        "/policy",
        "Show the policy in force",
        policy,
        PolicyPayload,
        Scope.ADMIN_READ,
        tagged=True,
        for_operators=True,
    ),
    Operation(
        "list_policy_versions",
        "GET",
        "/policy/versions",
        "List the versions of the policy, newest first, with what each changed",
        history,
        PolicyHistoryPayload,
        Scope.ADMIN_READ,
        for_operators=True,
    ),
    Operation(
        "change_policy",
        "PATCH",
        "/policy",
        "Change numbers of the policy in all processes, within seconds; everything else stays",
        change,
        PolicyChangePayload,
        Scope.ADMIN,
        body=(Argument("policy", Object(), "The numbers to change, by part and tier", _EXAMPLE, required=True), *_HOW),
        conditional=True,
        for_operators=True,
    ),
    Operation(
        "roll_back_policy",
        "POST",
        "/policy/rollback",
        "Make an earlier version of the policy the newest one; 0 is the default",
        roll_back,
        PolicyChangePayload,
        Scope.ADMIN,
        body=(Argument("version", Whole(0), "A version of the history", "version=0", required=True), *_HOW),
        conditional=True,
        for_operators=True,
    ),
)

"""The shadow policy, for operators: set it, see what it would have chosen in recorded decisions, end it."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Literal

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.principal import Scope
from duetime.scheduler.task import Tier
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.words.json_examples import as_member, with_examples
from duetime.tools.admin.shadow_rows import report_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Object, Text, Whole
from pydantic import Field


class TierDifferencePayload(RestPayload):
    """A tier: how many recorded starts it had, and would have had first; how many runs would have another key."""

    tier: Tier
    starts: int
    shadow_starts: int
    part: float
    shadow_part: float
    runs: int
    earlier: int
    later: int
    mean_key_shift_seconds: float
    keys: str


class PolicyShadowPayload(RestPayload):
    """The shadow policy and the one in force: a line for each number that differs, and what it would have chosen.

    `switch_on` is what `PATCH /v1/policy` takes as `policy` to put it in force.
    """

    schema_: Annotated[Literal["duetime.policy_shadow/1"], Field(alias="schema")] = "duetime.policy_shadow/1"
    at: str
    actor: str
    via: str | None = None
    reason: str | None = None
    policy: dict[str, Any]
    in_force: int
    changes: tuple[str, ...]
    switch_on: dict[str, Any]
    decisions: int
    since: str | None = None
    other_tier: int
    other_run: int
    tiers: tuple[TierDifferencePayload, ...]
    summary: str


class ShadowRemovedPayload(RestPayload):
    """There is no shadow policy any more."""

    schema_: Annotated[Literal["duetime.shadow_removed/1"], Field(alias="schema")] = "duetime.shadow_removed/1"
    removed: Literal[True] = True


def shadow(call: RestCall) -> RestAnswer:
    """Return the shadow and what it would have chosen."""
    return RestAnswer(PolicyShadowPayload.model_validate(report_json(call.parts.registry.policies.shadow.report())))


def set_shadow(call: RestCall) -> RestAnswer:
    """Set a shadow: changes of the policy in force, or a version."""
    policy, version = call.values.get("policy"), call.values.get("version")
    if (policy is None) is (version is None):
        raise InvalidArgument("policy", "give a policy or a version", accepted="one of both", example=_EXAMPLE)
    registry, reason = call.parts.registry.policies.shadow, call.values.get("reason")
    if policy is not None:
        with with_examples(as_member("policy")):
            found = registry.set(policy, by=call.by, reason=reason)
    else:
        found = registry.set_version(call.values["version"], by=call.by, reason=reason)
    return RestAnswer(PolicyShadowPayload.model_validate(report_json(found)))


def remove_shadow(call: RestCall) -> RestAnswer:
    """End the shadow."""
    call.parts.registry.policies.shadow.remove(by=call.by)
    return RestAnswer(ShadowRemovedPayload())


_EXAMPLE = "policy={'shares': {'low': 0.12}}"
OF_SHADOW = (
    Operation(
        "get_policy_shadow",
        "GET",
        "/policy/shadow",
        "Show the shadow policy, and what it would have chosen in recorded decisions",
        shadow,
        PolicyShadowPayload,
        Scope.ADMIN_READ,
        statuses=(HTTPStatus.NOT_FOUND,),
        for_operators=True,
    ),
    Operation(
        "set_policy_shadow",
        "PUT",
        "/policy/shadow",
        "Set a policy that is compared with what is decided, and changes nothing",
        set_shadow,
        PolicyShadowPayload,
        Scope.ADMIN,
        body=(
            Argument("policy", Object(), "Numbers that differ from the policy in force, by part and tier", _EXAMPLE),
            Argument("version", Whole(0), "A version of the history instead; 0 is the default", "version=3"),
            Argument("reason", Text(200), "Why, for the audit log", "reason='chats wait for them'"),
        ),
        for_operators=True,
    ),
    Operation(
        "remove_policy_shadow",
        "DELETE",
        "/policy/shadow",
        "End the shadow policy",
        remove_shadow,
        ShadowRemovedPayload,
        Scope.ADMIN,
        statuses=(HTTPStatus.NOT_FOUND,),
        for_operators=True,
    ),
)

"""The installation: actions that tasks can have, and for operators its pools and statistics."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

from duetime.scheduler.handlers import Handler
from duetime.scheduler.principal import Scope
from duetime.scheduler.rules.limits.pool_spec import spec_of
from duetime.scheduler.rules.time.times import length
from duetime.scheduler.store.pools import PoolNotFound
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.rest.resources.stats import StatsPayload, read_stats, stats_payload
from duetime.server.rest.rows.pools import pools_json
from duetime.server.words.json_examples import as_member, with_examples
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Object, Text
from pydantic import Field

MAX_POOL_NAME_CHARS = 110


class ActionPayload(RestPayload):
    """An action that a task can have; `payload` is the JSON Schema of its input.

    An action that declares none takes any object (`type` alone), or none (`maxProperties` is 0).
    """

    name: str
    description: str | None = None
    payload: dict[str, Any]
    time_limit: str


class WatchCheckPayload(RestPayload):
    """A check of a plug-in, which the action `watch` takes as its `check`; any object is its `arguments`."""

    name: str
    description: str | None = None


class ActionsPayload(RestPayload):
    """The actions of this installation, and the checks of watches that its plug-ins have."""

    schema_: Annotated[Literal["duetime.actions/1"], Field(alias="schema")] = "duetime.actions/1"
    actions: tuple[ActionPayload, ...]
    checks: tuple[WatchCheckPayload, ...]


class PoolsPayload(RestPayload):
    """The declared pools by name, each as it is declared."""

    schema_: Annotated[Literal["duetime.pools/1"], Field(alias="schema")] = "duetime.pools/1"
    pools: dict[str, dict[str, Any]]


class PoolPayload(RestPayload):
    """A pool as it is declared; `revision` is its ETag, and rises with each change."""

    schema_: Annotated[Literal["duetime.pool/1"], Field(alias="schema")] = "duetime.pool/1"
    name: str
    spec: dict[str, Any]
    revision: int


def actions(call: RestCall) -> RestAnswer:
    """Return what a task can do here."""
    known = call.parts.handlers
    checks = (WatchCheckPayload(name=each.name, description=each.description or None) for each in known.checks.values())
    return RestAnswer(ActionsPayload(actions=tuple(map(_action, known.values())), checks=tuple(checks)))


def _action(handler: Handler) -> ActionPayload:
    schema, nothing = handler.schema(), {} if handler.takes_payload else {"maxProperties": 0}
    return ActionPayload(
        name=handler.name,
        description=handler.description or None,
        payload=dict(schema) if schema else {"type": "object", **nothing},
        time_limit=length(handler.time_limit),
    )


def pools(call: RestCall) -> RestAnswer:
    """Return the declared pools."""
    return RestAnswer(PoolsPayload.model_validate(pools_json(call.parts.registry.read())))


def pool(call: RestCall) -> RestAnswer:
    """Return one pool as it is declared."""
    found = call.parts.registry.get(call.values["name"])
    if found is None:
        raise PoolNotFound(call.values["name"])
    payload = PoolPayload(name=found.pool.name, spec=spec_of(found.pool), revision=found.revision)
    return RestAnswer(payload, revision=found.revision)


def set_pool(call: RestCall) -> RestAnswer:
    """Create or change a pool."""
    with with_examples(as_member("spec")):
        made = call.parts.registry.set(call.values["name"], call.values["spec"], **_given(call))
    call.parts.runner.wake()
    return replace(pools(call), revision=made.revision)


def remove_pool(call: RestCall) -> RestAnswer:
    """Remove a pool; tasks that need it fall under its template, or are held until it is declared again."""
    call.parts.registry.remove(call.values["name"], **_given(call))
    call.parts.runner.wake()
    return replace(pools(call), revision=0)


def _given(call: RestCall) -> dict[str, Any]:
    return {"by": call.by, "reason": call.values.get("reason"), "based_on": call.revision}


def stats(call: RestCall) -> RestAnswer:
    """Return what waits in the queue, and what is used."""
    return RestAnswer(stats_payload(*read_stats(call.parts.remote_queue, call.parts.backlog)))


_NAME = Argument("name", Text(MAX_POOL_NAME_CHARS), "A pool, or tenant:* for the quota of each tenant", required=True)
_SPEC = Argument("spec", Object(), "As in the settings", "spec={'kind': 'slots', 'capacity': 2}", required=True)
REASON = Argument("reason", Text(500), "Why, for the audit log", "reason='the provider allows more'")
_FREE_PATH = "/pools/{name:path}"  # the name of a pool may have a slash
OF_INSTALLATION = (
    Operation(
        "list_actions",
        "GET",
        "/actions",
        "List the actions of tasks, and the checks of watches",
        actions,
        ActionsPayload,
    ),
    Operation(
        "list_pools",
        "GET",
        "/pools",
        "List the declared pools",
        pools,
        PoolsPayload,
        Scope.ADMIN_READ,
        for_operators=True,
    ),
    Operation(
        "get_pool",
        "GET",
        _FREE_PATH,
        "Show a pool as it is declared",
        pool,
        PoolPayload,
        Scope.ADMIN_READ,
        in_path=(_NAME,),
        tagged=True,
        for_operators=True,
    ),
    Operation(
        "set_pool",
        "PUT",
        _FREE_PATH,
        "Create or change a pool; existing reservations stay",
        set_pool,
        PoolsPayload,
        Scope.ADMIN,
        in_path=(_NAME,),
        body=(_SPEC, REASON),
        conditional=True,
        for_operators=True,
    ),
    Operation(
        "remove_pool",
        "DELETE",
        _FREE_PATH,
        "Remove a pool; tasks that need it fall under its template, or are held until it is declared again",
        remove_pool,
        PoolsPayload,
        Scope.ADMIN,
        in_path=(_NAME,),
        in_query=(REASON,),
        conditional=True,
        for_operators=True,
    ),
    Operation(
        "get_stats",
        "GET",
        "/stats",
        "Show what waits and what is used",
        stats,
        StatsPayload,
        Scope.ADMIN_READ,
        for_operators=True,
    ),
)

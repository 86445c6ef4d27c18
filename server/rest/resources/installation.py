"""The installation: actions that tasks can have, and for operators its pools, workers and statistics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any, Literal

from duetime.scheduler.handlers import Handler
from duetime.scheduler.nodes.heartbeat import is_alive
from duetime.scheduler.principal import Scope
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.rules.limits.pool_spec import spec_of
from duetime.scheduler.rules.time.times import length, utc
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import only_operators
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.rest.resources.stats import StatsPayload, read_stats, stats_payload
from duetime.tools.argument_types import Object, Text
from duetime.tools.arguments import Argument
from pydantic import Field

MAX_POOL_NAME_CHARS = 110


class ActionPayload(RestPayload):
    """An action that a task can have; `payload` is the JSON Schema of its input, where it declares one."""

    name: str
    description: str | None = None
    payload: dict[str, Any] | None = None
    time_limit: str


class ActionsPayload(RestPayload):
    """The actions of this installation."""

    schema_: Annotated[Literal["duetime.actions/1"], Field(alias="schema")] = "duetime.actions/1"
    actions: tuple[ActionPayload, ...]


class PoolsPayload(RestPayload):
    """The declared pools by name, each as it is declared."""

    schema_: Annotated[Literal["duetime.pools/1"], Field(alias="schema")] = "duetime.pools/1"
    pools: dict[str, dict[str, Any]]


class WorkerPayload(RestPayload):
    """A process that runs tasks, as it reported itself; `silent` ones have not lately."""

    id: str
    host: str
    pid: int
    threads: int
    started_at: str
    state: str
    running: int
    seen_at: str
    actions: tuple[str, ...]
    lost_threads: int


class WorkersPayload(RestPayload):
    """The worker processes of a shared installation."""

    schema_: Annotated[Literal["duetime.workers/1"], Field(alias="schema")] = "duetime.workers/1"
    workers: tuple[WorkerPayload, ...]


def check_operator(call: RestCall, scope: Scope) -> None:
    """Refuse a caller who administers no more than one tenant."""
    allowed = call.by.may_change_all_of if scope is Scope.ADMIN else call.by.may_read_all_of
    if not allowed(None):
        raise only_operators(scope)


def actions(call: RestCall) -> RestAnswer:
    """Return what a task can do here."""
    return RestAnswer(ActionsPayload(actions=tuple(map(_action, call.parts.handlers.values()))))


def _action(handler: Handler) -> ActionPayload:
    model = handler.payload_model
    return ActionPayload(
        name=handler.name,
        description=handler.description or None,
        payload=model.model_json_schema() if model else None,
        time_limit=length(handler.time_limit),
    )


def pools(call: RestCall) -> RestAnswer:
    """Return the declared pools."""
    check_operator(call, Scope.ADMIN_READ)
    found = call.parts.registry.read()
    return RestAnswer(PoolsPayload(pools={name: spec_of(pool) for name, pool in sorted(found.items())}))


def set_pool(call: RestCall) -> RestAnswer:
    """Create or change a pool."""
    check_operator(call, Scope.ADMIN)
    call.parts.registry.set(call.values["name"], call.values["spec"], by=call.by)
    call.parts.runner.wake()
    return pools(call)


def remove_pool(call: RestCall) -> RestAnswer:
    """Remove a pool; tasks that need it are held until it is declared again."""
    check_operator(call, Scope.ADMIN)
    call.parts.registry.remove(call.values["name"], by=call.by)
    call.parts.runner.wake()
    return pools(call)


def workers(call: RestCall) -> RestAnswer:
    """Return the worker processes."""
    check_operator(call, Scope.ADMIN_READ)
    store = call.parts.store
    now, left = store.now(), store.workers.active_runs()
    found = store.workers.all()
    shown = (_worker(each, left, alive=is_alive(each.seen_at, now)) for each in found)
    return RestAnswer(WorkersPayload(workers=tuple(shown)))


def _worker(worker: WorkerProcess, left: Mapping[str, int], *, alive: bool) -> WorkerPayload:
    """Return a worker; what one said before it fell silent is long untrue, so its runs are counted."""
    times = {"started_at": utc(worker.started_at), "seen_at": utc(worker.seen_at or worker.started_at)}
    now = {} if alive else {"state": "silent", "running": left.get(worker.id, 0)}
    return WorkerPayload(**{**asdict(worker), **times, **now})


def stats(call: RestCall) -> RestAnswer:
    """Return what waits in the queue, and what is used."""
    check_operator(call, Scope.ADMIN_READ)
    return RestAnswer(stats_payload(*read_stats(call.parts.remote_queue, call.parts.backlog)))


_NAME = Argument("name", Text(MAX_POOL_NAME_CHARS), "A pool, or tenant:* for the quota of each tenant", required=True)
_SPEC = Argument("spec", Object(), "As in the settings", "spec={'kind': 'slots', 'capacity': 2}", required=True)
_FREE_PATH = "/pools/{name:path}"  # the name of a pool may have a slash
OF_INSTALLATION = (
    Operation("list_actions", "GET", "/actions", "List the actions that a task can have", actions, ActionsPayload),
    Operation("list_pools", "GET", "/pools", "List the declared pools", pools, PoolsPayload, Scope.ADMIN_READ),
    Operation(
        "set_pool",
        "PUT",
        _FREE_PATH,
        "Create or change a pool; existing reservations stay",
        set_pool,
        PoolsPayload,
        Scope.ADMIN,
        in_path=(_NAME,),
        body=(_SPEC,),
    ),
    Operation(
        "remove_pool",
        "DELETE",
        _FREE_PATH,
        "Remove a pool; tasks that need it are held until it is declared again",
        remove_pool,
        PoolsPayload,
        Scope.ADMIN,
        in_path=(_NAME,),
    ),
    Operation(
        "list_workers", "GET", "/workers", "List the worker processes", workers, WorkersPayload, Scope.ADMIN_READ
    ),
    Operation("get_stats", "GET", "/stats", "Show what waits and what is used", stats, StatsPayload, Scope.ADMIN_READ),
)

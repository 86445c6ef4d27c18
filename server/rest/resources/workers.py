"""The worker processes of a shared installation, for operators: list, drain, resume."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Literal

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import Refused
from duetime.scheduler.principal import Scope
from duetime.scheduler.store.workers import DrainMode
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.installation import REASON
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.rest.rows.workers import NOT_SHARED_TEXT, workers_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Flag, Text
from pydantic import Field

MAX_WORKER_ID_CHARS = 120


class WorkerPayload(RestPayload):
    """A process that runs tasks, as it reported itself; `silent` ones have not lately. `drain` is asked of it.

    `withheld` threads start nothing while its machine is short of memory or CPU; absent where the queue does not say.
    """

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
    withheld: int | None = None
    drain: Literal["finish", "now"] | None = None


class ExternalWorkerPayload(RestPayload):
    """A caller elsewhere that claims runs over MCP; `silent` ones have not called lately. `runs` are those it holds."""

    id: str
    tenant: str
    user: str
    client: str | None = None
    all_tenants: bool
    state: str
    actions: tuple[str, ...]
    running: int
    runs: tuple[str, ...]
    started_at: str
    seen_at: str


class WorkersPayload(RestPayload):
    """The worker processes of a shared installation, and the workers elsewhere."""

    schema_: Annotated[Literal["duetime.workers/1"], Field(alias="schema")] = "duetime.workers/1"
    workers: tuple[WorkerPayload, ...]
    external: tuple[ExternalWorkerPayload, ...] = ()


def workers(call: RestCall) -> RestAnswer:
    """Return the worker processes."""
    return RestAnswer(WorkersPayload.model_validate(workers_json(call.parts.store, call.parts.remote_queue.stats())))


def drain(call: RestCall) -> RestAnswer:
    """Let a worker take no more runs."""
    _check_shared(call)
    mode = DrainMode.NOW if call.values.get("now") else DrainMode.FINISH
    act = AuditEntry.by(
        call.by, AuditKind.WORKER_DRAINED, reason=call.values.get("reason"), detail={"mode": mode.value}
    )
    call.parts.store.workers.drain(call.values["worker_id"], mode, act)
    return workers(call)


def resume(call: RestCall) -> RestAnswer:
    """Let a drained worker take runs again."""
    _check_shared(call)
    act = AuditEntry.by(call.by, AuditKind.WORKER_RESUMED, reason=call.values.get("reason"))
    call.parts.store.workers.resume(call.values["worker_id"], act)
    return workers(call)


def _check_shared(call: RestCall) -> None:
    """Refuse a caller who may not, and an installation that has no workers of its own."""
    if not call.parts.settings.distributed:
        raise Refused(NOT_SHARED_TEXT)


_WORKER_ID = Argument("worker_id", Text(MAX_WORKER_ID_CHARS), "A worker, as the list shows it", required=True)
OF_WORKERS = (
    Operation(
        "list_workers",
        "GET",
        "/workers",
        "List the worker processes",
        workers,
        WorkersPayload,
        Scope.ADMIN_READ,
        for_operators=True,
    ),
    Operation(
        "drain_worker",
        "POST",
        "/workers/{worker_id:path}/drain",
        "Let a worker take no more runs, within 5 s; it stays alive until it is resumed or stopped",
        drain,
        WorkersPayload,
        Scope.ADMIN,
        statuses=(HTTPStatus.CONFLICT,),
        in_path=(_WORKER_ID,),
        body=(
            Argument("now", Flag(), "Hand back what still runs after grace_seconds; default false", "now=true"),
            REASON,
        ),
        for_operators=True,
    ),
    Operation(
        "resume_worker",
        "POST",
        "/workers/{worker_id:path}/resume",
        "Let a drained worker take runs again",
        resume,
        WorkersPayload,
        Scope.ADMIN,
        statuses=(HTTPStatus.CONFLICT,),
        in_path=(_WORKER_ID,),
        body=(REASON,),
        for_operators=True,
    ),
)

"""The worker processes of a shared installation, for operators: list, drain, resume."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Literal

from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.nodes.heartbeat import is_alive, state_of
from duetime.scheduler.principal import Scope
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.store.workers import DrainMode
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import check_operator
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Flag, Text
from pydantic import Field

MAX_WORKER_ID_CHARS = 120


class WorkerPayload(RestPayload):
    """A process that runs tasks, as it reported itself; `silent` ones have not lately. `drain` is asked of it."""

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
    drain: Literal["finish", "now"] | None = None


class WorkersPayload(RestPayload):
    """The worker processes of a shared installation."""

    schema_: Annotated[Literal["duetime.workers/1"], Field(alias="schema")] = "duetime.workers/1"
    workers: tuple[WorkerPayload, ...]


def workers(call: RestCall) -> RestAnswer:
    """Return the worker processes."""
    check_operator(call, Scope.ADMIN_READ)
    store = call.parts.store
    now, left = store.now(), store.workers.active_runs()
    found = store.workers.all()
    shown = (_worker(each, left, now) for each in found)
    return RestAnswer(WorkersPayload(workers=tuple(shown)))


def _worker(worker: WorkerProcess, left: Mapping[str, int], now: datetime) -> WorkerPayload:
    """Return a worker; what one said before it fell silent is long untrue, so its runs are counted."""
    times = {"started_at": utc(worker.started_at), "seen_at": utc(worker.seen_at or worker.started_at)}
    running = worker.running if is_alive(worker.seen_at, now) else left.get(worker.id, 0)
    return WorkerPayload(**{**asdict(worker), **times, "state": state_of(worker, now), "running": running})


def drain(call: RestCall) -> RestAnswer:
    """Let a worker take no more runs."""
    check_operator(call, Scope.ADMIN)
    mode = DrainMode.NOW if call.values.get("now") else DrainMode.FINISH
    act = AuditEntry.by(
        call.by, AuditKind.WORKER_DRAINED, reason=call.values.get("reason"), detail={"mode": mode.value}
    )
    call.parts.store.workers.drain(call.values["worker_id"], mode, act)
    return workers(call)


def resume(call: RestCall) -> RestAnswer:
    """Let a drained worker take runs again."""
    check_operator(call, Scope.ADMIN)
    act = AuditEntry.by(call.by, AuditKind.WORKER_RESUMED, reason=call.values.get("reason"))
    call.parts.store.workers.resume(call.values["worker_id"], act)
    return workers(call)


_WORKER_ID = Argument("worker_id", Text(MAX_WORKER_ID_CHARS), "A worker, as the list shows it", required=True)
_REASON = Argument("reason", Text(500), "Why, for the audit log", "reason='kernel upgrade'")
OF_WORKERS = (
    Operation(
        "list_workers", "GET", "/workers", "List the worker processes", workers, WorkersPayload, Scope.ADMIN_READ
    ),
    Operation(
        "drain_worker",
        "POST",
        "/workers/{worker_id:path}/drain",
        "Let a worker take no more runs, within 5 s; it stays alive until it is resumed or stopped",
        drain,
        WorkersPayload,
        Scope.ADMIN,
        in_path=(_WORKER_ID,),
        body=(
            Argument("now", Flag(), "Hand back what still runs after grace_seconds; default false", "now=true"),
            _REASON,
        ),
    ),
    Operation(
        "resume_worker",
        "POST",
        "/workers/{worker_id:path}/resume",
        "Let a drained worker take runs again",
        resume,
        WorkersPayload,
        Scope.ADMIN,
        in_path=(_WORKER_ID,),
        body=(_REASON,),
    ),
)

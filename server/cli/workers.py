"""The verbs of workers: list, drain, resume."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Annotated

import typer
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.nodes.heartbeat import SILENT, is_alive, state_of
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.rules.time import times
from duetime.scheduler.store.workers import DrainMode
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.session import Session, cli_caller, session

EMBEDDED = (
    "drain is for shared installations, with PostgreSQL and Redis. Here one process runs the tasks: "
    "stop `duetime serve`, or pause tasks with `duetime reschedule ID --pause`."
)
NO_WORKER = "No worker has reported lately. `duetime worker` starts one."
NO_WORKER_HERE = (
    "There are no workers: they are for shared installations, with PostgreSQL and Redis. Here one process runs the "
    "tasks, that of `duetime serve` or of a chat client; `duetime doctor` says whether one does."
)

WorkerId = Annotated[str | None, typer.Argument(metavar="[ID]", help="the worker, as `duetime workers` shows it")]
EveryWorker = Annotated[bool, typer.Option("--all", help="every worker that is listed now, on any machine")]
DrainReason = Annotated[str | None, typer.Option(help="why, for the audit log")]


def list_(
    context: typer.Context,
    *,
    here: Annotated[
        bool, typer.Option("--here", help="only those of this host; exit code 1 if none of them has reported lately")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List the worker processes of a shared installation, on any machine."""
    if not _show(context, here=here, as_json=as_json) and here:
        raise typer.Exit(1)


def drain(
    context: typer.Context,
    worker_id: WorkerId = None,
    *,
    every: EveryWorker = False,
    now: Annotated[
        bool, typer.Option("--now", help="hand back what still runs after grace_seconds, so that it goes on elsewhere")
    ] = False,
    reason: DrainReason = None,
) -> None:
    """Let workers take no more runs and stay alive, until they are resumed or stopped."""
    one, mode = chosen(worker_id, every=every), DrainMode.NOW if now else DrainMode.FINISH
    act = AuditEntry.by(cli_caller(), AuditKind.WORKER_DRAINED, reason=reason, detail={"mode": mode.value})
    with _shared(context).store() as store:
        found = store.workers.drain(one, mode, act)
    say_drained(found)


def resume(
    context: typer.Context, worker_id: WorkerId = None, *, every: EveryWorker = False, reason: DrainReason = None
) -> None:
    """Let drained workers take runs again."""
    one = chosen(worker_id, every=every)
    act = AuditEntry.by(cli_caller(), AuditKind.WORKER_RESUMED, reason=reason)
    with _shared(context).store() as store:
        found = store.workers.resume(one, act)
    say_resumed(found)


def chosen(worker_id: str | None, *, every: bool) -> str | None:
    """Return the worker that was named, None for all of them. Raises InvalidArgument unless it is one of both."""
    if (worker_id is None) is not every:
        raise InvalidArgument("ID", "name a worker, or say --all", accepted="one of both", example="--all")
    return worker_id


def say_drained(found: Sequence[str]) -> None:
    if found:
        output.say(f"Draining within 5 s: {', '.join(found)}. `duetime workers` shows when they are drained.")
    else:
        output.say("No worker has reported lately, so there is none to drain.")


def say_resumed(found: Sequence[str]) -> None:
    if found:
        output.say(f"Taking runs again within 5 s: {', '.join(found)}.")
    else:
        output.say("No worker has reported lately, so there is none to resume.")


def _shared(context: typer.Context) -> Session:
    opened = session(context)
    if not opened.settings().distributed:
        raise Refused(EMBEDDED)
    return opened


def _show(context: typer.Context, *, here: bool, as_json: bool) -> bool:
    """Show the workers, of this host alone with `here`; return whether any was heard of lately."""
    opened = session(context)
    with opened.store(create=True) as store:
        now = store.now()
        left = store.workers.active_runs()
        found = [worker for worker in store.workers.all() if not here or worker.host == socket.gethostname()]
    # What a worker said before it fell silent is long untrue: its runs start again elsewhere when their leases end.
    found = [each if is_alive(each.seen_at, now) else replace(each, running=left.get(each.id, 0)) for each in found]
    states = [state_of(worker, now) for worker in found]
    if as_json:
        rows = [_json(worker, state) for worker, state in zip(found, states, strict=True)]
        output.as_json({"schema": "duetime.workers/1", "workers": rows})
    elif found:
        columns = ("WORKER", "HOST", "PID", "STATE", "RUNNING", "THREADS", "LOST", "HEARD OF")
        output.table(columns, (_row(worker, state, now) for worker, state in zip(found, states, strict=True)))
    else:
        output.say(NO_WORKER if opened.settings().distributed else NO_WORKER_HERE)
    return any(state != SILENT for state in states)


def _row(worker: WorkerProcess, state: str, now: datetime) -> tuple[str, ...]:
    ago = f"{(now - _seen_at(worker)).total_seconds():.0f} s ago"
    counts = (worker.running, worker.threads, worker.lost_threads)
    return (worker.id, worker.host, str(worker.pid), state, *map(str, counts), ago)


def _json(worker: WorkerProcess, state: str) -> dict[str, Json]:
    shown = {"started_at": times.utc(worker.started_at), "seen_at": times.utc(_seen_at(worker))}
    return {**asdict(worker), **shown, "state": state}


def _seen_at(worker: WorkerProcess) -> datetime:
    return worker.seen_at or worker.started_at

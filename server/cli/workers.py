"""The verb `workers`: a table of worker processes."""

from __future__ import annotations

import socket
from dataclasses import asdict, replace
from datetime import datetime

import typer
from duetime.scheduler.nodes.heartbeat import is_alive
from duetime.scheduler.records import WorkerProcess
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.session import session

SILENT = "silent"


def show(context: typer.Context, *, here: bool, as_json: bool) -> bool:
    """Show the workers, of this host alone with `here`; return whether any was heard of lately."""
    with session(context).store() as store:
        now = store.now()
        left = store.workers.active_runs()
        found = [worker for worker in store.workers.all() if not here or worker.host == socket.gethostname()]
    # What a worker said before it fell silent is long untrue: its runs start again elsewhere when their leases end.
    found = [each if is_alive(each.seen_at, now) else replace(each, running=left.get(each.id, 0)) for each in found]
    states = [worker.state if is_alive(worker.seen_at, now) else SILENT for worker in found]
    if as_json:
        rows = [_json(worker, state) for worker, state in zip(found, states, strict=True)]
        output.as_json({"schema": "duetime.workers/1", "workers": rows})
    elif found:
        columns = ("WORKER", "HOST", "PID", "STATE", "RUNNING", "THREADS", "LOST", "HEARD OF")
        output.table(columns, (_row(worker, state, now) for worker, state in zip(found, states, strict=True)))
    else:
        output.say("No worker has reported lately. `duetime worker` starts one.")
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

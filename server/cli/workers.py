"""The verbs of workers: list, drain, resume."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from duetime.scheduler.audit.entry import AuditEntry, AuditKind
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.nodes.heartbeat import SILENT
from duetime.scheduler.store.workers import DrainMode
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.formats.shared_options import AuditReason
from duetime.server.cli.output import AsJson
from duetime.server.rest.rows.workers import NOT_SHARED_TEXT, workers_json
from duetime.server.session import Session, cli_caller, session

NO_WORKER = (
    "No worker process has reported lately. With PostgreSQL and Redis `duetime worker` starts one; without Redis there "
    "are none, and one process runs the tasks: `duetime serve`, or a chat client. `duetime stats` shows its threads."
)

WorkerId = Annotated[str | None, typer.Argument(metavar="[ID]", help="the worker, as `duetime workers` shows it")]
EveryWorker = Annotated[bool, typer.Option("--all", help="every worker that is listed now, on any machine")]


def list_(
    context: typer.Context,
    *,
    here: Annotated[
        bool, typer.Option("--here", help="only those of this host; exit code 1 if none of them has reported lately")
    ] = False,
    silent: Annotated[bool, typer.Option("--all", help="also those that have not reported lately")] = False,
    as_json: AsJson = False,
) -> None:
    """List the worker processes of a shared installation, on any machine, and the workers elsewhere."""
    found, now = _read(session(context), here=here)
    show_workers(found, now, here=here, silent=silent, as_json=as_json)


def _read(session: Session, *, here: bool) -> tuple[dict[str, Json], datetime]:
    """Return the workers; of this host alone they are a readiness probe, which queries nothing but the database."""
    if here:
        with session.store(create=True) as store:
            return workers_json(store), store.now()
    with session.app() as app:
        return workers_json(app.store, app.remote_queue.stats()), app.store.now()


def show_workers(found: Mapping[str, Any], now: datetime, *, here: bool, silent: bool, as_json: bool) -> None:
    """Write the workers, with `here` those of this host. Raises Exit where none of these has reported lately.

    Silent workers are only counted, or come last with `silent`; JSON has all.
    """
    known = [each for each in found["workers"] if not here or each["host"] == socket.gethostname()]
    alive = [each for each in known if each["state"] != SILENT]
    if as_json:
        output.as_json({**found, "workers": known})
    else:
        gone, external = [each for each in known if each["state"] == SILENT], [] if here else found.get("external", [])
        if shown := [*alive, *(gone if silent else ())]:
            columns = ("WORKER", "HOST", "PID", "STATE", "RUNNING", "THREADS", "LOST", "WITHHELD", "HEARD OF")
            output.table(columns, (_row(worker, now) for worker in shown))
        _show_external(external, now)
        _say_missing(shown, gone, silent=silent)
    if here and not alive:
        raise typer.Exit(1)


def _say_missing(shown: list[Any], gone: list[Any], *, silent: bool) -> None:
    if not shown:
        output.say(NO_WORKER)
    if gone and not silent:
        output.say(f"{len(gone)} silent, --all shows them")


def _show_external(external: list[Any], now: datetime) -> None:
    if external:
        columns = ("EXTERNAL WORKER", "CLIENT", "STATE", "RUNNING", "ACTIONS", "HEARD OF")
        rows = ((each["id"], each.get("client", "-"), each["state"], str(each["running"]), each) for each in external)
        output.table(columns, ((*row, ", ".join(each["actions"]), _ago(each, now)) for *row, each in rows))


def _row(worker: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    names = ("id", "host", "pid", "state", "running", "threads", "lost_threads")
    return (*(str(worker[name]) for name in names), str(worker.get("withheld", "-")), _ago(worker, now))


def _ago(worker: Mapping[str, Any], now: datetime) -> str:
    return f"{(now - datetime.fromisoformat(worker['seen_at'])).total_seconds():.0f} s ago"


def drain(
    context: typer.Context,
    worker_id: WorkerId = None,
    *,
    every: EveryWorker = False,
    now: Annotated[
        bool,
        typer.Option("--now", help="hand back what still runs after grace_seconds, so that it continues elsewhere"),
    ] = False,
    reason: AuditReason = None,
) -> None:
    """Let workers take no more runs and stay alive, until they are resumed or stopped."""
    one, mode = chosen(worker_id, every=every), DrainMode.NOW if now else DrainMode.FINISH
    act = AuditEntry.by(cli_caller(), AuditKind.WORKER_DRAINED, reason=reason, detail={"mode": mode.value})
    with _shared(context).store() as store:
        found = store.workers.drain(one, mode, act)
        listed = workers_json(store)
        say_drained(found, _others(one, found, listed), listed)


def resume(
    context: typer.Context, worker_id: WorkerId = None, *, every: EveryWorker = False, reason: AuditReason = None
) -> None:
    """Let drained workers take runs again."""
    one = chosen(worker_id, every=every)
    act = AuditEntry.by(cli_caller(), AuditKind.WORKER_RESUMED, reason=reason)
    with _shared(context).store() as store:
        found = store.workers.resume(one, act)
        listed = workers_json(store)
        say_resumed(found, _others(one, found, listed), listed)


def chosen(worker_id: str | None, *, every: bool) -> str | None:
    """Return the worker that was named, None for all of them. Raises InvalidArgument unless it is one of both."""
    if (worker_id is None) is not every:
        raise InvalidArgument("ID", "name a worker, or say --all", accepted="one of both", example="--all")
    return worker_id


def _others(one: str | None, found: Sequence[str], listed: Mapping[str, Any]) -> list[str]:
    """Return the workers that were asked for, and for which there was nothing to do."""
    asked = [str(each["id"]) for each in listed["workers"]] if one is None else [one]
    return [each for each in asked if each not in found]


def say_drained(found: Sequence[str], already: Sequence[str], listed: Mapping[str, Any]) -> None:
    """Say which of the workers that were asked drain, and which did `already`; `listed` are all workers."""
    alive, silent = _by_silence(found, listed)
    if alive:
        output.say(f"Draining within 5 s: {', '.join(alive)}. `duetime workers` shows when they are drained.")
    elif not already:
        output.say("No worker process has reported lately, so there is none to drain.")
    if silent:
        output.say(f"Silent, and drained once they report again: {', '.join(silent)}.")
    if already:
        output.say(f"Draining or drained already: {', '.join(already)}.")
    _say_not_drained(listed)


def say_resumed(found: Sequence[str], already: Sequence[str], listed: Mapping[str, Any]) -> None:
    """Say which of the workers that were asked take runs again, and which did `already`; `listed` are all workers."""
    alive, silent = _by_silence(found, listed)
    if alive:
        output.say(f"Taking runs again within 5 s: {', '.join(alive)}.")
    elif not already:
        output.say("No worker process has reported lately, so there is none to resume.")
    if silent:
        output.say(f"Silent, and taking runs again once they report: {', '.join(silent)}.")
    if already:
        output.say(f"Taking runs already: {', '.join(already)}.")


def _say_not_drained(listed: Mapping[str, Any]) -> None:
    """Say of workers elsewhere, which decide themselves when they claim, how they are kept from it."""
    names = [str(each["id"]) for each in listed.get("external", ()) if each["state"] != SILENT]
    if names:
        output.say(f"Workers elsewhere are not drained: {', '.join(names)}. Stop them, or revoke their keys.")


def _by_silence(found: Sequence[str], listed: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return those of these workers that have reported lately, and the others."""
    silent = {each["id"] for each in listed["workers"] if each["state"] == SILENT}
    return [each for each in found if each not in silent], [each for each in found if each in silent]


def _shared(context: typer.Context) -> Session:
    opened = session(context)
    if not opened.settings().distributed:
        raise Refused(NOT_SHARED_TEXT)
    return opened

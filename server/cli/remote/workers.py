"""The verbs of the workers of an installation on another machine."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from duetime.scheduler.store.workers import DrainMode
from duetime.server.cli.exit_codes import NOT_FOUND_CODE
from duetime.server.cli.remote.client import RemoteProblem, RemoteServer
from duetime.server.cli.remote.tasks import Params, reason_of
from duetime.server.cli.workers import chosen, say_drained, say_resumed, show_workers


def workers_list(server: RemoteServer, params: Params) -> None:
    """List the worker processes."""
    show_workers(
        server.get("/workers"),
        datetime.now(UTC),
        here=params["here"],
        silent=params["silent"],
        as_json=params["as_json"],
    )


def drain(server: RemoteServer, params: Params) -> None:
    """Let workers take no more runs."""
    mode = DrainMode.NOW if params["now"] else DrainMode.FINISH
    say_drained(*_asked(server, params, "drain", mode, {"now": params["now"]}))


def resume(server: RemoteServer, params: Params) -> None:
    """Let drained workers take runs again."""
    say_resumed(*_asked(server, params, "resume", None, {}))


def _asked(
    server: RemoteServer, params: Params, verb: str, mode: DrainMode | None, body: dict[str, bool]
) -> tuple[list[str], list[str], Mapping[str, Any]]:
    """Ask each of the workers; return the ids of those that change, of the others, and all workers."""
    one = chosen(params["worker_id"], every=params["every"])
    listed = server.get("/workers")
    ids = [one] if one is not None else [str(worker["id"]) for worker in listed["workers"]]
    for each in list(ids):
        try:
            server.post(f"/workers/{each}/{verb}", {**body, **reason_of(params)})
        except RemoteProblem as problem:
            if one is not None or problem.exit_code != NOT_FOUND_CODE:
                raise
            ids.remove(each)  # it has ended since it was listed, and the others are meant all the same
    same = {worker["id"] for worker in listed["workers"] if worker.get("drain") == mode}
    return [each for each in ids if each not in same], [each for each in ids if each in same], listed

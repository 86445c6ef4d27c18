"""The verbs of runs on another machine."""

from __future__ import annotations

from duetime.server.cli.past import logs as here
from duetime.server.cli.remote.client import RemoteAnswer, RemoteServer
from duetime.server.cli.remote.tables import ZONE
from duetime.server.cli.remote.tasks import Params, found_id


def logs(server: RemoteServer, params: Params) -> None:
    """Show what the handler of a run logged."""
    of = params["of"] if params["of"].startswith(here.RUN_PREFIX) else found_id(server, params["of"])

    def read(after: str | None) -> RemoteAnswer:
        newest = params["tail"] if after is None else None
        return server.get(f"/runs/{of}/log", after=after, newest=newest, tenant=params["tenant"])

    here.show(read, params[ZONE](), follow=params["follow"], as_json=params["as_json"])

"""The verb that changes many tasks, on another machine."""

from __future__ import annotations

from duetime.server.cli import bulk as here
from duetime.server.cli.remote.client import RemoteServer
from duetime.server.cli.remote.tables import zone_of
from duetime.server.cli.remote.tasks import Params, found_id
from duetime.widgets.bulk.payload import BulkListPayload

_FILTERS = ("label", "action", "priority", "state", "after", "before")


def bulk(server: RemoteServer, params: Params) -> None:
    """Change many tasks, or take that back."""
    filters = [params["query"], *(params[name] for name in _FILTERS)]
    ids, token = here.meant(params["change"], params["ids"], params["every"], filters)
    names = (*_FILTERS, "to", "expect", "max_letters", "reason")
    given = {name: params[name] for name in names if params[name] is not None}
    found = {"query": params["query"], "undo": token, "task_ids": [found_id(server, each) for each in ids] or None}
    body = {**given, **{name: value for name, value in found.items() if value is not None}}
    if params["dry_run"]:
        body["dry_run"] = True
    done = server.post("/tasks/changes", {"change": params["change"], **body}, Idempotency_Key=params["key"])
    here.show(BulkListPayload.model_validate(done), zone_of(params), as_json=params["as_json"])

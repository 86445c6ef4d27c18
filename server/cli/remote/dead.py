"""The verbs of dead letters on another machine."""

from __future__ import annotations

from duetime.scheduler.task import Json
from duetime.server.cli import bulk
from duetime.server.cli.formats.csv_pages import wants_every_page, write_every_page
from duetime.server.cli.formats.option_values import read_object
from duetime.server.cli.past import dead
from duetime.server.cli.remote.client import RemoteAnswer, RemoteServer
from duetime.server.cli.remote.tables import CONTEXT, zone_of
from duetime.server.cli.remote.tasks import Params
from duetime.tools.admin import letter_rows
from duetime.widgets.bulk.payload import BulkListPayload

_FILTERS = ("action", "label", "text", "since", "tenant")


def list_(server: RemoteServer, params: Params) -> None:
    """List runs that are out of attempts."""
    where = {"state": str(params["state"].value), **{name: params[name] for name in _FILTERS}}

    def read(limit: int, cursor: str | None) -> RemoteAnswer:
        return server.get("/dead_letters", **where, limit=limit, cursor=cursor)

    if wants_every_page(params[CONTEXT]):
        write_every_page(params[CONTEXT], read, "dead_letters", letter_rows.LETTER_COLUMNS, dead.letter_cells)
        return
    page = read(params["limit"], params["cursor"])
    dead.show_page(page, zone_of(params), as_json=params["as_json"], as_csv=params["as_csv"])


def show(server: RemoteServer, params: Params) -> None:
    """Show one dead letter."""
    letter = server.get(f"/dead_letters/{params['run_id']}", tenant=params["tenant"])
    dead.show_letter(letter, zone_of(params), as_json=params["as_json"])


def replay(server: RemoteServer, params: Params) -> None:
    """Run dead letters once more."""
    payload = read_object(params["payload"])
    done = _closed(server, params, "replay", **({} if payload is None else {"payload": payload}))
    dead.show_closed(done, "replayed", as_json=params["as_json"], as_csv=params["as_csv"])


def discard(server: RemoteServer, params: Params) -> None:
    """Close dead letters that need no replay."""
    done = _closed(server, params, "discard")
    dead.show_closed(done, "discarded", as_json=params["as_json"], as_csv=params["as_csv"])


def undo(server: RemoteServer, params: Params) -> None:
    """Take a replay or a discard back."""
    tenant = {} if params["tenant"] is None else {"tenant": params["tenant"]}
    done = server.post("/dead_letters/undo", {"undo": params["token"], **tenant}, Idempotency_Key=params["key"])
    bulk.show(BulkListPayload.model_validate(done), zone_of(params), as_json=params["as_json"])


def _closed(server: RemoteServer, params: Params, verb: str, **more: Json) -> RemoteAnswer:
    dead.check_choice(params["run_ids"], params["every"], [params[name] for name in _FILTERS[:-1]])
    body = {name: params[name] for name in (*_FILTERS, "reason", "max_letters", "dry_run") if params[name] is not None}
    ways = {"run_ids": params["run_ids"]} if params["run_ids"] else {"all": True} if params["every"] else {}
    return server.post(f"/dead_letters/{verb}", {**body, **ways, **more}, Idempotency_Key=params["key"])

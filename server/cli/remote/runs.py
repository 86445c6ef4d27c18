"""The verbs of runs on another machine."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from duetime.scheduler.ids import RUN_PREFIX
from duetime.scheduler.rules.states import FAILURES
from duetime.server.cli import output
from duetime.server.cli.formats.csv_pages import wants_every_page, write_every_page
from duetime.server.cli.past import logs as here
from duetime.server.cli.past import run_table
from duetime.server.cli.past.count_tables import show_buckets, show_counts
from duetime.server.cli.past.pages import PagePlace, full_page
from duetime.server.cli.past.runs import RUN_FILTERS
from duetime.server.cli.remote import tasks
from duetime.server.cli.remote.client import RemoteAnswer, RemoteServer
from duetime.server.cli.remote.tables import CONTEXT, ZONE, zone_of
from duetime.server.cli.remote.tasks import Params, found_id
from duetime.tools.admin.run_rows import RUN_COLUMNS


def runs(server: RemoteServer, params: Params) -> None:
    """List runs, or count them."""
    where = {name: params[name] for name in (*RUN_FILTERS, "since", "until", "tenant")}
    where["task_id"] = found_id(server, params["task"]) if params["task"] else None
    how = {"as_json": params["as_json"], "as_csv": params["as_csv"]}
    if params["count_by"]:
        show_counts(server.get("/runs/counts", group=params["count_by"].value, **where), "runs", **how)
    elif params["bucket"]:
        show_buckets(server.get("/runs/buckets", width=params["bucket"].value, **where), "runs", **how)
    else:
        _page(server, params, where | {"oldest_first": params["oldest_first"] or None})


def failed(server: RemoteServer, params: Params) -> None:
    """List tasks whose last run failed; with a time, every run that failed or expired then."""
    if not (params["since"] or params["until"]):
        tasks.failed(server, params)
        return
    where = {name: params[name] for name in ("since", "until", "label")}
    _page(server, params, {**where, "state": ",".join(sorted(FAILURES)), "text": params["query"]})


def _page(server: RemoteServer, params: Params, where: dict[str, Any]) -> None:
    def read(limit: int, cursor: str | None) -> RemoteAnswer:
        answer = server.get("/runs", **where, limit=limit, cursor=cursor)
        since, until = (answer.pop(name, None) for name in ("since", "until"))
        if cursor == params["cursor"] and not params["as_json"]:
            output.say_window("Runs", _instant(since), _instant(until), zone_of(params))
        return answer

    if wants_every_page(params[CONTEXT]):
        write_every_page(params[CONTEXT], read, "runs", RUN_COLUMNS)
        return
    found = full_page(read, "runs", PagePlace(params["limit"], params["cursor"]))
    run_table.show_page(params[CONTEXT], found, zone_of(params))


def _instant(written: str | None) -> datetime | None:
    return None if written is None else datetime.fromisoformat(written)


def logs(server: RemoteServer, params: Params) -> None:
    """Show what the handler of a run logged."""
    with here.named_log(params["of"]):
        of = params["of"] if params["of"].startswith(RUN_PREFIX) else found_id(server, params["of"])

        def read(after: str | None) -> RemoteAnswer:
            newest = params["tail"] if after is None else None
            return server.get(f"/runs/{of}/log", after=after, newest=newest, tenant=params["tenant"])

        here.show(read, params[ZONE](), follow=params["follow"], as_json=params["as_json"])

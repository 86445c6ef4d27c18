"""The verbs of recorded decisions: list, show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.rest.administration.decisions import DecisionsPayload, decision_payload
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.session import cli_caller, session
from duetime.widgets.text.history_text import clock_time

NONE_RECORDED: Final = "a few takes a minute are recorded, and none where decisions_per_minute is 0"

OfTenant = Annotated[str | None, typer.Option(help="the decisions on runs of this tenant, or `*` for all")]


def list_(
    context: typer.Context,
    *,
    task: Annotated[str | None, typer.Option(help="only on runs of this task: its id or a part of its title")] = None,
    tenant: OfTenant = None,
    limit: Annotated[int, typer.Option(help="decisions per page, 1 to 100")] = 20,
    cursor: Annotated[str | None, typer.Option(help="the cursor that the previous page printed")] = None,
    as_json: AsJson = False,
) -> None:
    """List recorded decisions of the queue, newest first: which run, what became of it, why its tier."""
    with session(context).app() as app:
        task_id = app.scheduler.tasks.find(task) if task else None
        page = app.scheduler.decisions.page(task_id=task_id, limit=limit, cursor=cursor, tenant=tenant, by=cli_caller())
        zone = app.scheduler.zone or "UTC"
    shown = DecisionsPayload(decisions=tuple(map(decision_payload, page.decisions)), cursor=page.cursor)
    show_decisions(json_of(shown), zone, as_json=as_json)


def show_decisions(page: Any, zone: str, *, as_json: bool) -> None:
    """Write a page of decisions."""
    if as_json:
        output.as_json(page)
        return
    if page["decisions"]:
        columns = (f"AT ({zone})", "TIER", "OUTCOME", "WHY ITS TIER", "TASK", "DECISION")
        output.table(columns, (_row(each, zone) for each in page["decisions"]), spare=("TIER", "TASK"))
    else:
        output.say(f"No decisions: {NONE_RECORDED}.")
    if page.get("cursor"):
        output.note(f"More: the same command with --cursor {page['cursor']}")


def show(
    context: typer.Context,
    decision_id: Annotated[str, typer.Argument(metavar="DECISION", help="a decision of `duetime decisions`")],
    *,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Show one decision in words: why this tier and this run, what else waited, and what the pools had."""
    with session(context).app() as app:
        found = app.scheduler.decisions.get(decision_id, tenant=tenant, by=cli_caller())
        zone = app.scheduler.zone or "UTC"
    show_decision(json_of(decision_payload(found)), zone, as_json=as_json)


def show_decision(found: Any, zone: str, *, as_json: bool) -> None:
    """Write one decision in words."""
    if as_json:
        output.as_json(found)
        return
    output.say(f"{found['id']}, {clock_time(found['at'], zone)}, task {found['task_id']}")
    for line in found["why"]:
        output.say(f"  {line}")


def json_of(payload: RestPayload) -> Json:
    """Return a payload of the REST API as the command line writes it."""
    found: Json = payload.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _row(decision: Mapping[str, Any], zone: str) -> tuple[str, ...]:
    cells = (decision[name] for name in ("tier", "outcome", "reason", "task_id", "id"))
    return (clock_time(decision["at"], zone), *cells)

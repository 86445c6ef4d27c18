"""The verbs of recorded decisions: list, show."""

from __future__ import annotations

from typing import Annotated

import typer
from duetime.scheduler.foresight.decision_text import lines, outcome, reason
from duetime.scheduler.rules.policies.recorded import Decision
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Json
from duetime.server.cli import output
from duetime.server.cli.output import AsJson
from duetime.server.rest.administration.decisions import DecisionsPayload, decision_payload
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.session import cli_caller, session
from duetime.widgets.text.history_text import clock_time

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
        task_id = app.scheduler.find(task) if task else None
        page = app.scheduler.decisions(task_id=task_id, limit=limit, cursor=cursor, tenant=tenant, by=cli_caller())
        zone = app.scheduler.zone or "UTC"
        recorded = app.settings.decisions_per_minute
    if as_json:
        shown = tuple(map(decision_payload, page.decisions))
        output.as_json(json_of(DecisionsPayload(decisions=shown, cursor=page.cursor)))
        return
    if page.decisions:
        columns = (f"AT ({zone})", "TIER", "OUTCOME", "WHY ITS TIER", "TASK", "DECISION")
        output.table(columns, (_row(each, zone) for each in page.decisions), spare=("TIER", "TASK"))
    else:
        told = "decisions_per_minute is 0, so none is recorded" if not recorded else "a few takes a minute are recorded"
        output.say(f"No decisions: {told}.")
    if page.cursor:
        output.note(f"More: the same command with --cursor {page.cursor}")


def show(
    context: typer.Context,
    decision_id: Annotated[str, typer.Argument(metavar="DECISION", help="a decision of `duetime decisions`")],
    *,
    tenant: OfTenant = None,
    as_json: AsJson = False,
) -> None:
    """Show one decision in words: why this tier and this run, what else waited, and what the pools had."""
    with session(context).app() as app:
        found = app.scheduler.decision(decision_id, tenant=tenant, by=cli_caller())
        zone = app.scheduler.zone or "UTC"
    if as_json:
        output.as_json(json_of(decision_payload(found)))
        return
    output.say(f"{found.id}, {clock_time(times.utc(found.at), zone)}, task {found.task_id}")
    for line in lines(found):
        output.say(f"  {line}")


def json_of(payload: RestPayload) -> Json:
    """Return a payload of the REST API as the command line writes it."""
    found: Json = payload.model_dump(mode="json", by_alias=True, exclude_none=True)
    return found


def _row(decision: Decision, zone: str) -> tuple[str, ...]:
    return (
        clock_time(times.utc(decision.at), zone),
        decision.tier.value,
        outcome(decision),
        reason(decision.look),
        decision.task_id,
        decision.id,
    )

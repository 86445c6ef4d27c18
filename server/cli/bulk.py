"""The verb that changes many tasks at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import typer
from duetime.scheduler.calls.bulk_change import MAX_TASKS_CHANGED, BulkVerb
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import Tier
from duetime.scheduler.views import TaskFilter
from duetime.server.cli import completion, output
from duetime.server.cli.completion import Label
from duetime.server.cli.exit_codes import REFUSED_CODE
from duetime.server.cli.output import AsJson
from duetime.server.session import cli_caller, session
from duetime.tools.arguments.filters import parts_of
from duetime.widgets.bulk.payload import BulkListPayload, BulkRow, bulk_payload
from duetime.widgets.bulk.text import NONE_MATCHES, headline
from duetime.widgets.payload import as_json as dumped

BulkChange = Annotated[
    BulkVerb, typer.Argument(metavar="CHANGE", help="cancel, pause, resume, move, replay, discard or undo")
]
BulkIds = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]...", help="the tasks, or the token of an undo; else see the filters")
]
BulkQuery = Annotated[str | None, typer.Option("--about", "--query", help="only tasks whose title contains this")]
BulkOfAction = Annotated[str | None, typer.Option(help="only of this action", autocompletion=completion.actions)]
BulkOfTier = Annotated[Tier | None, typer.Option("--priority", "--tier", help="only of this priority")]
BulkOfState = Annotated[
    str | None,
    typer.Option(
        metavar="STATE",
        help="in this state; default: open, of replay and discard: dead_letter",
        autocompletion=completion.states,
    ),
]
BulkAfter = Annotated[str | None, typer.Option(help="only tasks due from this time on: 'today 12:00'")]
BulkBefore = Annotated[str | None, typer.Option(help="only tasks due before this time: 'tomorrow'")]
BulkEvery = Annotated[bool, typer.Option("--all", help="all that are open, without a filter")]
BulkTo = Annotated[
    str | None,
    typer.Option(
        "--to",
        "--until",
        help="of a move: a time, a day (keeps times of day), or '1 day later'; of a pause: when it ends",
    ),
]
BulkExpect = Annotated[int | None, typer.Option(min=0, help="how many the filters match, as the dry run says")]
BulkMost = Annotated[
    int | None, typer.Option("--max", help="of a replay by filter: how many, those that failed first; default 100")
]
BulkDryRun = Annotated[bool, typer.Option("--dry-run", help="only show what would be changed; so do filters alone")]
BulkReason = Annotated[str | None, typer.Option(help="why, for the history of each task and the audit log")]
BulkKey = Annotated[
    str | None, typer.Option("--key", help="idempotency key: a repeat with the same key changes no more")
]


def bulk(
    context: typer.Context,
    change: BulkChange,
    ids: BulkIds = None,
    *,
    query: BulkQuery = None,
    label: Label = None,
    action: BulkOfAction = None,
    priority: BulkOfTier = None,
    state: BulkOfState = None,
    after: BulkAfter = None,
    before: BulkBefore = None,
    every: BulkEvery = False,
    to: BulkTo = None,
    expect: BulkExpect = None,
    max_letters: BulkMost = None,
    dry_run: BulkDryRun = False,
    reason: BulkReason = None,
    key: BulkKey = None,
    as_json: AsJson = False,
) -> None:
    """Cancel, pause, resume, move, replay or discard many tasks, or undo that; a filter previews until --expect."""
    task_ids, token = meant(change, ids, every, (query, label, action, priority, state, after, before))
    where = TaskFilter(**parts_of(state), action=action, label=label, query=query, tier=priority)
    asked: dict[str, Any] = {"after": after, "before": before, "to": to, "expect": expect, "max_letters": max_letters}
    with session(context).scheduler() as scheduler:
        result = scheduler.bulk.change(
            change,
            [scheduler.tasks.find(each) for each in task_ids],
            where=where,
            **asked,
            undo=token,
            reason=reason,
            dry_run=dry_run,
            idempotency_key=key,
            by=cli_caller(),
        )
        zone = scheduler.zone or "UTC"
    show(bulk_payload(result, MAX_TASKS_CHANGED), zone, as_json=as_json)


def meant(
    change: BulkVerb, ids: Sequence[str] | None, every: bool, filters: Sequence[str | None]
) -> tuple[Sequence[str], str | None]:
    """Return the tasks that are named, and the token of an undo. Raises InvalidArgument where nothing is said."""
    if change is BulkVerb.UNDO:
        return (), ids[0] if ids else None
    if sum([bool(ids), any(each is not None for each in filters), every]) != 1:
        text = "name tasks, or give filters, or say --all"
        raise InvalidArgument("ID", text, accepted="one of these", example="--about John")
    return ids or (), None


def show(payload: BulkListPayload, zone: str, *, as_json: bool) -> None:
    """Write what a call did to many tasks, and how to continue. Raises Exit where each of them refused it."""
    done = payload.bulk
    if as_json:
        output.as_json(dumped(payload))
    elif payload.tasks:
        _write(payload, zone)
    else:
        output.say(NONE_MATCHES)
    if done.refused and not (done.changed or done.unchanged or done.dry_run):
        raise typer.Exit(REFUSED_CODE)


def _write(payload: BulkListPayload, zone: str) -> None:
    columns = ("ID", "TITLE", f"WAS ({zone})", "WHEN", "STATE", "WHY NOT")
    output.table(columns, (_row(row, zone) for row in payload.tasks), spare=("WAS", "STATE"))
    output.say(headline(payload.bulk, zone))
    if payload.bulk.expect:
        why = " and --reason" if payload.bulk.change is BulkVerb.DISCARD else ""
        output.note(f"To do it: the same command with --expect {payload.bulk.expect}{why}")
    if payload.bulk.undo:
        output.note(f"For 10 minutes: duetime bulk undo {payload.bulk.undo}")


def _row(row: BulkRow, zone: str) -> Sequence[str]:
    was = times.describe(datetime.fromisoformat(row.was), zone) if row.was else ""
    why = row.why or (row.became or "")
    state = "paused" if row.paused else row.state
    when = times.describe(datetime.fromisoformat(row.when), zone)
    if row.side_run_at:
        when = f"{times.describe(datetime.fromisoformat(row.side_run_at), zone)}, and next {when}"
    return row.id, row.title, was, when, state, why

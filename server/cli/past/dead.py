"""The verbs of dead letters: list, show, replay, discard, undo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from duetime.scheduler.calls.bulk_change import MAX_TASKS_CHANGED
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.dead_letters import DeadLetterFilter, LetterState
from duetime.server.cli import bulk, completion, output
from duetime.server.cli.completion import Label
from duetime.server.cli.exit_codes import REFUSED_CODE
from duetime.server.cli.formats.csv_pages import wants_every_page, write_every_page
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.formats.option_values import read_object
from duetime.server.cli.formats.shared_options import SharedOption, with_options
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.cli.past.history_table import show_history
from duetime.server.cli.past.run_table import MAX_TABLE_REASON_CHARS
from duetime.server.session import cli_caller, session
from duetime.tools.admin import letter_rows
from duetime.widgets.bulk.payload import bulk_payload
from duetime.widgets.quote import as_text, cut
from duetime.widgets.schema.history_parts import AttemptPart
from duetime.widgets.text.history_text import clock_time

RunIds = Annotated[list[str] | None, typer.Argument(metavar="[RUN]...", help="the runs; without one, see the filters")]
LetterAction = Annotated[str | None, typer.Option(help="only of this action", autocompletion=completion.actions)]
LetterText = Annotated[str | None, typer.Option(help="only with this in the title or in the reason")]
LetterSince = Annotated[str | None, typer.Option(help="from this time on: 'friday', 'last night', '12h'")]
LetterTenant = Annotated[str | None, typer.Option(help="the dead letters of this tenant")]
Every = Annotated[bool, typer.Option("--all", help="all that are open, without a filter")]
MaxLetters = Annotated[int, typer.Option("--max", help="how many at most, the oldest first: 1 to 1000")]
CountOnly = Annotated[bool, typer.Option("--dry-run", help="show what would become of them, and close none")]
ClosingKeyOption = Annotated[
    str | None, typer.Option("--key", help="idempotency key: repeating a call with the same key closes no more")
]
UndoKeyOption = Annotated[
    str | None,
    typer.Option("--key", help="idempotency key: a repeat with the same key takes nothing back again"),
]
LetterPayload = Annotated[
    str | None, typer.Option(metavar="JSON", help="another payload for the one run that is named: a JSON object")
]
LetterUndo = Annotated[str, typer.Argument(metavar="TOKEN", help="the replay or discard, as its answer names it")]
LetterReason = Annotated[str | None, typer.Option(help="why, for the audit log; needed unless runs are named")]


def list_(
    context: typer.Context,
    *,
    state: Annotated[LetterState, typer.Option(help="those that are open, or were replayed or discarded")] = (
        LetterState.OPEN
    ),
    action: LetterAction = None,
    label: Label = None,
    text: LetterText = None,
    since: LetterSince = None,
    tenant: Annotated[str | None, typer.Option(help="the dead letters of this tenant, or `*` for all")] = None,
    limit: Annotated[int, typer.Option(help="dead letters per page, 1 to 100")] = 50,
    cursor: Annotated[str | None, typer.Option(help="the cursor that the previous page printed")] = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """List runs that are out of attempts, newest first, and why."""
    where = DeadLetterFilter(state=state, action=action, label=label, text=text)
    with session(context).scheduler() as scheduler:

        def read(limit: int, cursor: str | None) -> dict[str, Any]:
            page = scheduler.letters.page(where, since=since, limit=limit, cursor=cursor, tenant=tenant)
            return letter_rows.page_json(*page)

        if wants_every_page(context):
            write_every_page(context, read, "dead_letters", letter_rows.LETTER_COLUMNS, letter_cells)
        else:
            show_page(read(limit, cursor), scheduler.zone or "UTC", as_json=as_json, as_csv=as_csv)


def show_page(page: Mapping[str, Any], zone: str, *, as_json: bool, as_csv: bool) -> None:
    """Write a page of dead letters, and how to get the next one."""
    found = [*map(letter_cells, page["dead_letters"])]
    if as_json:
        output.as_json(dict(page))
        return
    if as_csv:
        write_csv(letter_rows.LETTER_COLUMNS, found)
    elif found:
        columns = (f"AT ({zone})", "TITLE", "ACTION", "ATTEMPTS", "REPLAYS", "WHY", "TASK", "RUN")
        output.table(columns, (_row(letter, zone) for letter in found), spare=("REPLAYS", "ACTION", "TASK"))
    else:
        output.say("No dead letters.")
    if page.get("cursor"):
        output.note(f"More: the same command with --cursor {page['cursor']}")


def letter_cells(letter: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a dead letter with the number of its attempts."""
    return {**letter, "attempts": len(letter["attempts"])}


def _row(letter: Mapping[str, Any], zone: str) -> Sequence[str]:
    return (
        clock_time(letter["at"], zone),
        letter["title"],
        letter["action"],
        str(letter["attempts"]),
        str(letter["replays"] or ""),
        cut(letter["reason"], MAX_TABLE_REASON_CHARS),
        letter["task_id"],
        letter["run_id"],
    )


def show(
    context: typer.Context,
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="the run")],
    *,
    tenant: LetterTenant = None,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: its payload, and every attempt with its reason."""
    with session(context).scheduler() as scheduler:
        letter, zone = scheduler.letters.get(run_id, tenant=tenant), scheduler.zone or "UTC"
    show_letter({"schema": "duetime.dead_letter/1", **letter_rows.letter_json(letter)}, zone, as_json=as_json)


def show_letter(letter: Mapping[str, Any], zone: str, *, as_json: bool) -> None:
    """Write one dead letter."""
    if as_json:
        output.as_json(dict(letter))
        return
    closed = clock_time(letter["closed_at"], zone) if letter.get("closed_at") else None
    output.facts(
        (
            ("Run", letter["run_id"]),
            ("Task", f"{letter['task_id']} {letter['title']}"),
            ("Action", letter["action"]),
            ("Out of attempts", f"{clock_time(letter['at'], zone)} {zone}"),
            ("Why", letter["reason"]),
            ("Payload", as_text(letter["payload"]) if letter.get("payload") else None),
            ("Replays before", str(letter["replays"] or "")),
            (letter["state"].capitalize(), f"{closed} {zone}" if closed else None),
            ("As the run", letter.get("replayed_as")),
        )
    )
    attempts = [AttemptPart.model_validate(each) for each in reversed(letter["attempts"])]
    show_history(attempts, (), zone)


with_closing = with_options(
    "closing",
    {
        "action": SharedOption(LetterAction),
        "label": SharedOption(Label),
        "text": SharedOption(LetterText),
        "since": SharedOption(LetterSince),
        "every": SharedOption(Every, False),
        "max_letters": SharedOption(MaxLetters, 100),
        "dry_run": SharedOption(CountOnly, False),
        "key": SharedOption(ClosingKeyOption),
        "tenant": SharedOption(LetterTenant),
        "as_json": SharedOption(AsJson, False),
        "as_csv": SharedOption(AsCsv, False),
    },
)
"""Gives a command the options of a call that closes letters; it gets what they say as its argument `closing`."""


@with_closing
def replay(
    context: typer.Context,
    run_ids: RunIds = None,
    *,
    closing: dict[str, Any],
    reason: LetterReason = None,
    payload: LetterPayload = None,
) -> None:
    """Run dead letters once more: those that are named, or the oldest of a filter."""
    _close(context, "replayed", run_ids, closing, reason=reason, payload=read_object(payload))


@with_closing
def discard(
    context: typer.Context,
    run_ids: RunIds = None,
    *,
    closing: dict[str, Any],
    reason: Annotated[str | None, typer.Option(help="why, for the audit log")] = None,
) -> None:
    """Close dead letters that need no replay; they stay in the history."""
    _close(context, "discarded", run_ids, closing, reason=reason)


def _close(
    context: typer.Context, how: str, run_ids: Sequence[str] | None, closing: Mapping[str, Any], **more: Any
) -> None:
    """Replay or discard letters, and write what was done."""
    filters = {name: closing[name] for name in ("action", "label", "text")}
    check_choice(run_ids, closing["every"], (*filters.values(), closing["since"]))
    with session(context).app() as app:
        close = app.scheduler.letters.replay if how == "replayed" else app.scheduler.letters.discard
        done = close(
            run_ids or None,
            where=DeadLetterFilter(**filters),
            **{name: closing[name] for name in ("since", "max_letters", "dry_run", "tenant")},
            idempotency_key=closing["key"],
            by=cli_caller(),
            **more,
        )
    show_closed(letter_rows.closed_json(done), how, as_json=closing["as_json"], as_csv=closing["as_csv"])


def undo(
    context: typer.Context,
    token: LetterUndo,
    *,
    tenant: LetterTenant = None,
    key: UndoKeyOption = None,
    as_json: AsJson = False,
) -> None:
    """Take a replay or a discard back, within ten minutes: the letters are open again."""
    with session(context).app() as app:
        result = app.scheduler.bulk.change("undo", undo=token, tenant=tenant, idempotency_key=key, by=cli_caller())
        zone = app.scheduler.zone or "UTC"
    bulk.show(bulk_payload(result, MAX_TASKS_CHANGED), zone, as_json=as_json)


def check_choice(run_ids: Sequence[str] | None, every: bool, filters: Sequence[str | None]) -> None:
    """Refuse a command that does not say which dead letters it means. Raises InvalidArgument."""
    ways = [bool(run_ids), any(each is not None for each in filters), every]
    if sum(ways) != 1:
        raise InvalidArgument(
            "RUN", "name runs, or give filters, or say --all", accepted="one of these", example="--all"
        )


def show_closed(done: dict[str, Any], how: str, *, as_json: bool, as_csv: bool) -> None:
    """Write what a replay or a discard did. Raises Exit where it closed none of those that it tried."""
    if as_json:
        output.as_json(done)
    elif as_csv:
        write_csv(letter_rows.CLOSED_COLUMNS, [*done["closed"], *done["skipped"]])
    else:
        for line in closed_lines(done, how):
            output.say(line)
    if done["skipped"] and not (done["closed"] or done["dry_run"]):
        raise typer.Exit(REFUSED_CODE)


def _replayed(letter: Mapping[str, Any]) -> str:
    """Say as which run a letter is replayed; that of a recurring task runs in addition to its next occurrence."""
    next_run = (
        f", in addition to the next run of {letter['task_id']}, due {letter['next']}" if letter.get("next") else ""
    )
    return f"{letter['run_id']} is replayed as {letter['replayed_as']}{next_run}."


def closed_lines(done: dict[str, Any], how: str) -> list[str]:
    """Return what a replay or a discard did, in lines."""
    closed, skipped = done["closed"], done["skipped"]
    tried, more = done["dry_run"], "+" if done.get("at_least") else ""
    matched = f"{done['matched'] or len(skipped)}{more}"  # those that are named may be closed already
    number = f"{matched} match; {len(closed)} would be" if tried else f"{len(closed)} of {matched}"
    lines = [f"{number} {how}."]
    lines += [_replayed(each) for each in closed if each.get("replayed_as")]
    lines += [f"{each['run_id']} {'would stay' if tried else 'stays'}: {each['why']}" for each in skipped]
    if done["held_back"]:
        lines.append(f"{done['held_back']} were replayed too often and are left out: name them to replay them.")
    if done["left"]:
        left = f"{done['left']}{more} {'is' if done['left'] == 1 else 'are'} left"
        lines.append(f"{left}: repeat the command, or give a higher --max.")
    if done.get("undo"):
        lines.append(f"For 10 minutes: duetime dead undo {done['undo']}")
    return lines

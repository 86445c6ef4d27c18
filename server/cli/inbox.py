"""The verbs of the inbox: list, read and done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import typer
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.rules.time import times
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.task import InboxMessage, Json
from duetime.scheduler.views import NOTHING_HELD, HeldDeliveries
from duetime.server.cli import completion, output
from duetime.server.cli.formats.csv_table import write_csv
from duetime.server.cli.output import AsCsv, AsJson
from duetime.server.session import session
from duetime.widgets.quote import cut
from duetime.widgets.text.history_text import clock_time
from duetime.widgets.text.list_text import held_in_words, quiet_in_words

MAX_TEXT_CHARS = 200
MESSAGE_ID_PREFIX = "m_"
COLUMNS = ("at", "id", "task_id", "title", "state", "text")
NOTHING = "Nothing is unread."

OutcomeLimit = Annotated[int, typer.Option(help="outcomes at most, 1 to 100")]
Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID]...",
        help="tasks, or single outcomes by their own ids, which --json shows",
        autocompletion=completion.unread,
    ),
]


def list_(context: typer.Context, *, limit: OutcomeLimit = 20, as_json: AsJson = False, as_csv: AsCsv = False) -> None:
    """List the outcomes that are unread, newest first; reading a list marks none of them."""
    with session(context).scheduler() as scheduler:
        found, count = scheduler.inbox(limit=limit), scheduler.unread_count()
        now, zone = scheduler.now(), scheduler.zone or "UTC"
        quiet, held = scheduler.quiet_count(), scheduler.held()
    if as_json:
        output.as_json(_json(found, count, quiet, held))
    elif as_csv:
        write_csv(COLUMNS, map(_row, found))
    elif found:
        columns = (f"AT ({zone})", "", "TASK", "TITLE", "STATE", "TEXT")
        shown = (
            (
                clock_time(times.utc(each.created_at), zone),
                times.relative(each.created_at, now),
                each.task_id,
                each.title,
                output.state_word(each.state),
                "" if each.text == each.title else cut(each.text, MAX_TEXT_CHARS),
            )
            for each in found
        )
        output.table(columns, shown, spare=("", f"AT ({zone})"))
        output.say(_counted(count, len(found)))
    else:
        output.say(NOTHING)
    if quiet and not as_json:
        output.note(f"{quiet_in_words(quiet)} `duetime runs --since 24h` lists every run.")
    if held.until and not as_json:
        output.note(held_in_words(held, zone))


def read(
    context: typer.Context, *, ids: Ids = None, limit: OutcomeLimit = 20, as_json: AsJson = False, as_csv: AsCsv = False
) -> None:
    """Show outcomes whole and mark them as read: those that are named, or the newest."""
    with session(context).scheduler() as scheduler:
        found = _found(scheduler, ids, limit)
        zone = scheduler.zone or "UTC"
        scheduler.mark_read([each.id for each in found])
        count = scheduler.unread_count()
    if as_json:
        output.as_json(_json(found, count))
        return
    if as_csv:
        write_csv(COLUMNS, map(_row, found))
        return
    for each in found:
        output.say(f"{clock_time(times.utc(each.created_at), zone)}  {each.task_id}  {each.title}: {each.state}")
        for line in () if each.text == each.title else each.text.splitlines():
            output.say(f"  {line}")
    output.say(_counted(count, 0) if found or count else NOTHING)


def done(
    context: typer.Context,
    *,
    ids: Ids = None,
    every: Annotated[bool, typer.Option("--all", help="all that are unread")] = False,
    as_json: AsJson = False,
) -> None:
    """Mark outcomes as done without showing them: those that are named, or all."""
    if bool(ids) is every:
        problem = "name outcomes or say --all, not both" if every else "name outcomes, or say --all"
        raise InvalidArgument("ID", problem, accepted="ids of tasks or of outcomes")
    with session(context).scheduler() as scheduler:
        marked = scheduler.mark_read() if every else _mark(scheduler, ids or ())
        count = scheduler.unread_count()
    if as_json:
        output.as_json({"schema": "duetime.inbox/1", "done": marked, "unread_count": count})
    else:
        output.say(f"{marked} outcome{'' if marked == 1 else 's'} done. {_counted(count, 0)}")


def _mark(scheduler: Scheduler, ids: Sequence[str]) -> int:
    named = [_named(scheduler, text) for text in ids]  # all, before any of them is marked
    messages = [name for name in named if name.startswith(MESSAGE_ID_PREFIX)]
    marked = sum(scheduler.mark_read(task_id=name) for name in named if not name.startswith(MESSAGE_ID_PREFIX))
    return marked + (scheduler.mark_read(messages) if messages else 0)


def _found(scheduler: Scheduler, ids: Sequence[str] | None, limit: int) -> list[InboxMessage]:
    if not ids:
        return list(scheduler.inbox(limit=limit))
    found = (each for text in ids for each in scheduler.inbox(limit=limit, of=_named(scheduler, text)))
    return list({each.id: each for each in found}.values())


def _named(scheduler: Scheduler, text: str) -> str:
    """Return the id of the outcome or of the task that a text stands for. Raises TaskNotFound, InvalidArgument."""
    if not text.startswith(MESSAGE_ID_PREFIX):
        return scheduler.get(scheduler.find(text)).record.task.id
    found = [each.id for each in scheduler.inbox(of=text)]
    if len(found) > 1:
        raise InvalidArgument("ID", f"{text!r} may be {', '.join(found[:5])}", accepted="the beginning of one id")
    return found[0] if found else text


def _row(message: InboxMessage) -> Mapping[str, Json]:
    return {
        "at": times.utc(message.created_at),
        "id": message.id,
        "task_id": message.task_id,
        "title": message.title,
        "state": message.state.value,
        "text": message.text,
    }


def _json(found: Sequence[InboxMessage], count: int, quiet: int = 0, held: HeldDeliveries = NOTHING_HELD) -> Json:
    left_out = {"quiet_count": quiet} if quiet else {}
    kept: dict[str, Json] = {"held_count": held.count, "held_until": times.utc(held.until)} if held.until else {}
    messages = [{**_row(each), **_held(each)} for each in found]
    return {"schema": "duetime.inbox/1", "messages": messages, "unread_count": count, **left_out, **kept}


def _held(message: InboxMessage) -> Mapping[str, Json]:
    return {"held_until": times.utc(message.held_until)} if message.held_until else {}


def _counted(count: int, shown: int) -> str:
    if not shown:
        return f"{count} unread." if count else NOTHING
    more = f", {count - shown} of them older than these" if count > shown else ""
    return f"{count} unread{more}. `duetime inbox read` shows them whole, `duetime inbox done --all` marks them all."

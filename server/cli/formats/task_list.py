"""A page of tasks as a table: its payload is that of `GET /v1/tasks`, wherever it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import typer
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.rules.time import times
from duetime.scheduler.task import State
from duetime.scheduler.views import Standing
from duetime.server.cli import output
from duetime.server.cli.formats.csv_pages import ReadRows, write_every_page
from duetime.server.cli.formats.csv_table import write_csv
from duetime.widgets.quote import cut
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.text.chain_text import progress_in_words
from duetime.widgets.text.list_text import LIST_CUT, counts_in_words
from duetime.widgets.text.task_text import held_until_in_words
from rich.text import Text

TASK_COLUMNS = (
    *("id", "title", "state", "when", "local", "timezone", "action", "repeat", "priority", "deadline", "labels"),
    *("paused", "paused_until", "damaged", "blocked", "why", "expected", "attempt", "max_attempts"),
    *("last_state", "last_ended", "last_attempts", "last_summary", "last_unverified", "chain", "step"),
    *("cancel_requested", "reminder", "event", "waiting_for", "held_until", "chain_id", "error"),
)
NO_TASKS = "No tasks. Create one: duetime schedule 'Call John' --when 'in 20 min'"
NO_MATCH = "No task matches this filter; `duetime list` without a filter lists all."
NO_FAILURE = "No task failed when it last ran."
MAX_TERMINAL_REASON_CHARS = 200
_FILTERS = ("state", "label", "query", "after", "before")

ListJson = dict[str, Any]
"""A page or a row of `duetime.list/1`."""

ReadChain = Callable[[str], TaskPayload]
"""Reads a whole chain, by its id."""


def show_list(context: typer.Context, found: ListJson, zone: str, chain_of: ReadChain) -> None:
    """Write a page of tasks as the options of a verb ask for, and how to get the next one; bounds are in `zone`.

    In a table, chains stand above the first of their steps on the page.
    """
    if context.params["as_json"]:
        output.as_json(found)
        return
    if context.params["as_csv"]:
        write_csv(TASK_COLUMNS, map(_cells, found["tasks"]))
    else:
        _show_page(context, found, zone, chain_of)
    output.say_next(context, found.get("cursor"))


def write_tasks(context: typer.Context, read: ReadRows) -> None:
    """Write the tasks of all pages as CSV."""
    write_every_page(context, read, "tasks", TASK_COLUMNS, _cells)


def _cells(row: Mapping[str, Any]) -> ListJson:
    """Return a row without parts in parts."""
    return {**row, **{f"last_{name}": value for name, value in row.get("last_run", {}).items()}}


def _show_page(context: typer.Context, found: ListJson, zone: str, chain_of: ReadChain) -> None:
    rows, counts = found["tasks"], {State(state): count for state, count in found["counts"].items()}
    if rows and found.get("failures"):
        _show_failures(rows, datetime.fromisoformat(found["now"]))
    elif rows:
        _show_tasks(rows, chain_of)
    if rows or counts:
        at_least = tuple(map(State, found.get("at_least", ())))
        output.say(counts_in_words(counts, at_least, failures=bool(found.get("failures")), spoken=False))
    else:
        output.say(_nothing(context))
    if found.get("overdue"):
        output.say(f"{found['overdue']}.")
    for clash in found.get("clashes", ()):
        output.say(clash["text"])
    if found.get("incomplete"):
        output.note(LIST_CUT)
    output.say_window("Due", _instant(found.get("after")), _instant(found.get("before")), zone)


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _nothing(context: typer.Context) -> str:
    given = {name: context.params[name] for name in _FILTERS if context.params.get(name) is not None}
    if given == {"state": State.FAILED} or (not given and "state" not in context.params):
        return NO_FAILURE
    return NO_MATCH if given else NO_TASKS


def _show_tasks(rows: Sequence[ListJson], chain_of: ReadChain) -> None:
    """Show tasks, each in its own zone, chains above their steps; where one failed, waits or is unverified, why."""
    shown = _with_chains(rows, chain_of)
    why = ("WHY",) if any(_reason(row) for row in shown) else ()
    columns = ("ID", "WHEN", "", "STATE", "TITLE", *why, "ACTION", "REPEATS", "LABELS")
    cells = (_task(row, (_reason(row),) if why else ()) for row in shown)
    output.table(columns, cells, spare=("LABELS", "REPEATS", "ACTION", "", *why))


def _with_chains(rows: Sequence[ListJson], chain_of: ReadChain) -> list[ListJson]:
    """Return the rows of a page, and each chain once, above the first of its steps on the page.

    A step that waits says for which others.
    """
    seen, found, awaited = {row["id"] for row in rows}, list[ListJson](), dict[str, list[str]]()
    for row in rows:
        chain_id = row.get("chain_id")
        if chain_id and chain_id not in seen:
            seen.add(chain_id)
            chain = chain_of(chain_id)
            found.append(_chain_row(chain))
            awaited |= _open_upstreams(chain)
        found.append({**row, "upstreams": awaited.get(row["id"], [])})
    return found


def _open_upstreams(task: TaskPayload) -> dict[str, list[str]]:
    """Return the names of the steps that have to end before each step of a chain, by the id of its task."""
    steps = (task.chain and task.chain.steps) or ()
    still_open = {step.name for step in steps if step.state in OPEN}
    return {step.id: [name for name in step.after or () if name in still_open] for step in steps}


def _chain_row(task: TaskPayload) -> ListJson:
    """Return a chain as a row, which says how far it is in the place of an action."""
    known = task.model_dump(mode="json", by_alias=True, exclude_none=True)
    when = {"when": task.when.utc, "timezone": task.when.timezone, "relative": task.when.relative}
    progress = progress_in_words(task.chain) if task.chain else task.action
    return {**known, **when, "action": progress, "labels": task.labels or ()}


def _reason(row: Mapping[str, Any]) -> str:
    """Return what a task misses or waits for, why it failed, what holds its delivery, or how its result is odd."""
    waits = "; ".join(f"waits for {sentence}" for sentence in row.get("waiting_for", ()))
    held = f"delivery {_held(row)}" if row.get("held_until") else ""
    unverified = row.get("last_run", {}).get("unverified")
    ended = "; ".join(filter(None, (_error(row), held)))
    reason = row.get("why") or waits or _upstreams(row) or ended or unverified or ""
    return cut(reason, MAX_TERMINAL_REASON_CHARS)


def _upstreams(row: Mapping[str, Any]) -> str:
    """Say for which steps of its chain a task waits, or that it waits for other tasks; empty where it does neither."""
    if row["state"] != State.WAITING or isinstance(row.get("chain"), Mapping):
        return ""
    names = row.get("upstreams") or ()
    steps = f"step{'' if len(names) == 1 else 's'} {', '.join(names)}"
    return f"waits for {steps if names else 'the tasks that it comes after'}"


def _error(row: Mapping[str, Any]) -> str:
    """Say why a task failed, and when it is tried again."""
    error = row.get("error", "")
    return f"tries again {row['relative']}: {error}" if row["state"] == State.RETRYING and error else error


def _held(row: Mapping[str, Any]) -> str:
    return held_until_in_words(datetime.fromisoformat(row["held_until"]), row["timezone"])


def _task(row: Mapping[str, Any], why: Sequence[str]) -> Sequence[str | Text]:
    return (
        row["id"],
        _time(row["when"], row["timezone"]),
        "" if row.get("upstreams") and row["state"] == State.WAITING else row["relative"],
        _state(row),
        row["title"],
        *why,
        row["action"],
        "yes" if row.get("repeat") else "",
        ", ".join(row["labels"]),
    )


def _state(row: Mapping[str, Any]) -> Text:
    state = State(row["state"])
    word = output.state_of(state, row)
    if row.get("paused_until"):
        until = times.describe(datetime.fromisoformat(row["paused_until"]), row["timezone"])
        word.append(f" until {until}")
    if state not in OPEN and row.get("last_run", {}).get("unverified"):
        return word.append(f", {Standing.UNVERIFIED}")
    if state is State.RETRYING and row.get("max_attempts"):
        return word.append(f", attempt {row['attempt'] + 1} of {row['max_attempts']}")
    return word


def _show_failures(rows: Sequence[ListJson], now: datetime) -> None:
    """Show why and when tasks failed, and when they run again."""
    columns = ("ID", "TITLE", "ENDED", "", "ATTEMPTS", "WHY", "NEXT")
    output.table(columns, (_failure(row, now) for row in rows), spare=("ATTEMPTS", "", "NEXT"))


def _failure(row: Mapping[str, Any], now: datetime) -> Sequence[str]:
    last, zone = row["last_run"], row["timezone"]
    paused = "paused, " if row.get("paused") else ""
    return (
        row["id"],
        row["title"],
        _time(last["ended"], zone) if last.get("ended") else "",
        times.relative(datetime.fromisoformat(last["ended"]), now) if last.get("ended") else "",
        str(last.get("attempts", "")),
        cut(last.get("summary") or "", MAX_TERMINAL_REASON_CHARS),
        f"{paused}{_time(row['when'], zone)}" if State(row["state"]) in OPEN else "",
    )


def _time(instant: str, zone: str) -> str:
    return f"{times.describe(datetime.fromisoformat(instant), zone)} {zone}"

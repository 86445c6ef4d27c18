"""One frame of `duetime top`, as wide as the terminal: its lines are cut, and columns that can be spared go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from duetime.scheduler.rules.limits.pool import in_full
from duetime.scheduler.rules.time import times
from duetime.widgets.formats.terminal_text import plain
from duetime.widgets.text.history_text import clock_time
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

MIN_CELL_CHARS: Final = 4
_PAUSED: Final = "paused"
_COLUMNS: Final = ("running", "ready", "waiting", "scheduled", "retrying", "suspended", _PAUSED)
"""States of open runs, and those of paused tasks, in their order; the last are the first to go where it is narrow."""


def frame(found: Mapping[str, Any], zone: str, width: int) -> RenderableType:
    """Return a frame for a terminal of so many columns."""
    parts: list[RenderableType] = [
        _line(f"duetime top  {clock_time(found['now'], zone)} {zone}", "bold"),
        *_rates(found),
    ]
    parts += [Text(), _tiers(found["tiers"], width)]
    if found.get("silent"):
        parts += [Text(), _line(found["silent"], "yellow")]
    if found["pools"]:
        parts += [Text(), _pools(found["pools"], width)]
    return Group(*parts, Text(), *_workers(found["workers"], width))


def message(text: str) -> RenderableType:
    """Return a frame that says why there is none."""
    return Text(plain(text), style="red")


def _rates(found: Mapping[str, Any]) -> Iterator[Text]:
    window = found["throughput"][:2][-1]
    minutes = window["seconds"] / 60 or 1.0
    rates = ", ".join(f"{window[name] / minutes:.3g} {name}" for name in ("ready", "started", "ended"))
    yield _line(f"per minute, over {_span(window['seconds'])}: {rates}")
    of, queue = found["outcomes"], found.get("queue")
    missed = f"{of['missed']} of {of['deadlines']} deadlines missed, {of['failed']} failed, {of['retried']} tried again"
    yield _line(f"in {_span(of['seconds'])}: {missed}", "red" if of["missed"] else "")
    if queue:
        yield _line(f"queue: {queue['leased']} leased, {queue['parked']} held by a pool, {queue['delayed']} delayed")


def _tiers(tiers: Sequence[Mapping[str, Any]], width: int) -> Table:
    counted = [{**tier["states"], **({_PAUSED: tier[_PAUSED]} if tier.get(_PAUSED) else {})} for tier in tiers]
    used = [state for state in _COLUMNS if any(state in counts for counts in counted) or state in _COLUMNS[:2]]
    rows = []
    for tier, by_state in zip(tiers, counted, strict=True):
        oldest = _span(tier["oldest_seconds"]) if tier["oldest_seconds"] else "-"
        late = Text(f"{oldest} late" if tier["late"] else oldest, style="red" if tier["late"] else "")
        counts = [str(by_state.get(state, 0)) for state in used]
        rows.append((tier["tier"], *counts[:2], late, _span(tier["patience_seconds"]), *counts[2:]))
    named = [state.upper() for state in used]
    heads = ("TIER", *named[:2], "OLDEST", "PATIENCE", *named[2:])
    return _table(heads, rows, width, spare=(*named[:1:-1], "PATIENCE"))


def _pools(pools: Mapping[str, Mapping[str, Any]], width: int) -> Table:
    rows = [
        (name, use["state"], *(in_full(use[part]) for part in ("used", "capacity", "free", "spent", "parked")))
        for name, use in pools.items()
    ]
    heads = ("POOL", "STATE", "USED", "CAPACITY", "FREE", "SPENT", "HELD")
    return _table(heads, rows, width, spare=("SPENT", "FREE", "STATE"))


def _workers(workers: Sequence[Mapping[str, Any]], width: int) -> Iterator[RenderableType]:
    if not workers:
        yield _line("No worker has reported, and nothing runs.")
        return
    heads = ("WORKER", "STATE", "RUNNING", "ACTION", "FOR", "TIER", "TRY", "TENANT", "TASK")
    rows = [row for worker in workers for row in _of_worker(worker)]
    yield _table(heads, rows, width, spare=("TASK", "TENANT", "TRY", "TIER", "STATE"))
    for worker in workers:
        if withheld := worker.get("withheld"):
            idle = "1 thread stays" if withheld == 1 else f"{withheld} threads stay"
            yield _line(f"{worker['id']}: {idle} idle: its machine is short of memory or CPU", "yellow")


def _of_worker(worker: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    threads = worker.get("threads")
    own = (worker["id"], worker["state"], f"{worker['running']}/{threads}" if threads else str(worker["running"]))
    runs = [
        (
            each["action"],
            _span(each["seconds"]),
            each["priority"],
            str(each["attempt"]),
            each["tenant"],
            each["task_id"],
        )
        for each in worker["runs"]
    ] or [("",) * 6]
    yield (*own, *runs[0])
    for run in runs[1:]:
        yield ("", "", "", *run)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str | Text]], width: int, *, spare: Sequence[str]) -> Table:
    cells = [[cell if isinstance(cell, Text) else Text(plain(cell)) for cell in row] for row in rows]
    lengths = [max(len(head), *(row[at].cell_len for row in cells), 0) for at, head in enumerate(heads)]
    kept = list(range(len(heads)))
    for name in spare:
        if sum(lengths[at] + 2 for at in kept) - 2 > width:
            kept.remove(heads.index(name))
    shown = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for at in kept:
        shown.add_column(heads[at], no_wrap=True, overflow="ellipsis", min_width=min(lengths[at], MIN_CELL_CHARS))
    for row in cells:
        shown.add_row(*(row[at] for at in kept))
    return shown


def _line(text: str, style: str = "") -> Text:
    return Text(plain(text), style=style, no_wrap=True, overflow="ellipsis")


def _span(seconds: float) -> str:
    return times.length(timedelta(seconds=int(seconds)))

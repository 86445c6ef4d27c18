"""The answers of `find_runs` by event: what happened to runs that all filters match, or its number."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import BucketWidth
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.task import Json, State
from duetime.tools.admin.event_filter import event_filter
from duetime.tools.admin.event_rows import buckets_json, counts_json
from duetime.tools.admin.run_rows import SPAN_ARGUMENTS
from duetime.tools.results import answer

if TYPE_CHECKING:
    from duetime.tools.admin.find_runs_call import FindRuns
    from duetime.tools.definition import Sender
    from mcp.types import CallToolResult

ANY_EVENT: Final = "any"
MAX_SHOWN_REASON_CHARS: Final = 160
MAX_GROUPS_SHOWN: Final = 20
MAX_BUCKETS_SHOWN: Final = 48
_FILTERS: Final = (
    *("text", "title", "action", "priority", "label", "actor", "via", "task_id"),
    *("worker", "error", "min_attempts", "min_cost", *SPAN_ARGUMENTS),
)
_OF_RUNS_ALONE: Final = ("pool", "min_units")


def events_answer(call: FindRuns, sender: Sender) -> CallToolResult:
    """Answer by event. Raises InvalidArgument for a filter that only runs have."""
    where, bounds = _where(call), {"since": call.since, "until": call.until, "tenant": call.tenant}
    scheduler = sender.scheduler
    if call.count_by in set(BucketWidth):
        spread = buckets_json(scheduler.past.event_buckets(BucketWidth(call.count_by), where, by=sender.by, **bounds))
        rows: Any = spread["buckets"]
        lines = [f"{each['start']} {_counted(each['counts'])}" for each in rows[-MAX_BUCKETS_SHOWN:]]
        return answer({**spread, "buckets": rows[-MAX_BUCKETS_SHOWN:]}, _said(lines))
    if call.count_by is not None:
        counts = counts_json(scheduler.past.event_counts(_group(call.count_by), where, by=sender.by, **bounds))
        found: Any = counts["counts"]
        first = dict(list(found.items())[:MAX_GROUPS_SHOWN])
        return answer({**counts, "counts": first}, _said([f"{count} {name}" for name, count in first.items()]))
    page = scheduler.past.events(where, limit=call.limit, cursor=call.cursor, by=sender.by, **bounds)
    titles = scheduler.tasks.titles([event.task_id for event in page.events], tenant=call.tenant, by=sender.by)
    shown: list[Json] = [_row(event, titles.get(event.task_id)) for event in page.events]
    structured: dict[str, Json] = {"schema": "duetime.events/1", "events": shown}
    lines = [_line(event, titles.get(event.task_id)) for event in page.events]
    if page.cursor is not None:
        structured["cursor"] = page.cursor
        lines.append("There may be more: repeat the call with the cursor.")
    return answer(structured, _said(lines))


def _where(call: FindRuns) -> EventFilter:
    for name in _OF_RUNS_ALONE:
        if getattr(call, name) is not None:
            raise InvalidArgument(name, "only runs have it", accepted="a call without event", example="min_attempts=2")
    if call.state is not None and call.state not in set(State):
        raise InvalidArgument(
            "state", "an event moves to one state", accepted=", ".join(State), example="state='failed'"
        )
    given = {name: getattr(call, name) for name in _FILTERS}
    kind = None if call.event == ANY_EVENT else _kind(str(call.event))
    return event_filter(**given, kind=kind, state=call.state)


def _kind(word: str) -> str:
    if word not in set(EventKind):
        raise InvalidArgument(
            "event", "there is no such kind", accepted=f"{ANY_EVENT}, {', '.join(EventKind)}", example="event='failed'"
        )
    return word


def _group(word: str) -> EventGroup:
    if word not in set(EventGroup):
        raise InvalidArgument(
            "count_by", "events have no such group", accepted=", ".join(EventGroup), example="count_by='state'"
        )
    return EventGroup(word)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _said(lines: list[str]) -> str:
    return "\n".join(lines) or "No event matches."


def _row(event: Event, title: str | None) -> dict[str, Json]:
    known: dict[str, Json] = {
        "task_id": event.task_id,
        "run_id": event.run_id,
        "title": title,
        "at": utc(event.at),
        "kind": event.kind.value,
        "actor": event.actor,
        "via": event.via,
        "attempt": event.attempt,
        "reason": event.reason[:MAX_SHOWN_REASON_CHARS] if event.reason else None,
    }
    return {name: value for name, value in known.items() if value is not None}


def _line(event: Event, title: str | None) -> str:
    why = f": {event.reason[:MAX_SHOWN_REASON_CHARS]}" if event.reason else ""
    named = f" «{title}»" if title else ""
    return f"{event.at:%Y-%m-%d %H:%M} UTC {event.kind.value}{named} by {event.actor} ({event.task_id}){why}"

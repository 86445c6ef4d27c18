"""History: events over all tasks, and attempts with their tracebacks."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.history.events import EventGroup
from duetime.scheduler.history.runs import BucketWidth
from duetime.scheduler.intake.validation import tenant_read
from duetime.scheduler.principal import ALL_TENANTS, Principal, Scope
from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import TaskView
from duetime.server.auth.access import only_operators
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.rest.rows.events import event_json, events_json
from duetime.tools.admin.event_filter import event_filter
from duetime.tools.admin.event_rows import buckets_json, counts_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.types import Text, Whole
from duetime.tools.definition import TASK_ID, TIME
from duetime.widgets.history import attempt_payload
from duetime.widgets.schema.history_parts import AttemptPart
from pydantic import Field

MAX_CURSOR_CHARS: Final = 400
MAX_ATTEMPT_COUNT: Final = 1_000_000
TENANT = Argument("tenant", Text(200), "Another tenant than the caller's, `*` for all; for operators", "tenant='acme'")
LENGTH = Text(60, "a length of time")
LIMIT = Argument("limit", Whole(1, 100), "Default 50", "limit=50")
CURSOR = Argument("cursor", Text(MAX_CURSOR_CHARS), "From the previous answer, for the next page")


class EventPayload(RestPayload):
    """A change of a task: who, by which way, when, what and why; `seq` counts the changes of the task.

    `changes` maps a part to [before, after] in words. Where all tenants were asked for, `tenant` is there too; of a
    chain that was asked for, `step` is the step that changed.
    """

    task_id: str
    tenant: str | None = None
    seq: int
    run_id: str | None = None
    title: str | None = None
    step: str | None = None
    at: str
    kind: str
    actor: str
    via: str | None = None
    reason: str | None = None
    from_state: Annotated[State | None, Field(alias="from")] = None
    to_state: Annotated[State | None, Field(alias="to")] = None
    attempt: int | None = None
    changes: dict[str, tuple[str, ...]] | None = None


class EventsPayload(RestPayload):
    """One page of events, newest first. It may be short where few match: `cursor` continues behind `searched_to`.

    `timezone` is that of times in `changes`. Where one task was asked for, the first page has its newest `attempts`.
    """

    schema_: Annotated[Literal["duetime.events/1"], Field(alias="schema")] = "duetime.events/1"
    timezone: str
    attempts: tuple[AttemptPart, ...] | None = None
    events: tuple[EventPayload, ...]
    cursor: str | None = None
    searched_to: str | None = None


class EventCountsPayload(RestPayload):
    """Events by group, the largest first; with `counted_to`, older ones were not counted."""

    schema_: Annotated[Literal["duetime.event_counts/1"], Field(alias="schema")] = "duetime.event_counts/1"
    by: EventGroup
    counts: dict[str, int]
    counted_to: str | None = None


class EventBucketPayload(RestPayload):
    """Events by kind in the time from `start` to that of the next one."""

    start: str
    counts: dict[EventKind, int]


class EventBucketsPayload(RestPayload):
    """Events by time, oldest first, without empty buckets; days are those of `timezone`."""

    schema_: Annotated[Literal["duetime.event_buckets/1"], Field(alias="schema")] = "duetime.event_buckets/1"
    width: BucketWidth
    timezone: str
    buckets: tuple[EventBucketPayload, ...]
    counted_to: str | None = None


class AttemptsPayload(RestPayload):
    """The attempts of a task, newest first; `older` when there are more that were left out."""

    schema_: Annotated[Literal["duetime.attempts/1"], Field(alias="schema")] = "duetime.attempts/1"
    attempts: tuple[AttemptPart, ...]
    older: Literal[True] | None = None


def reader_of(call: RestCall) -> Principal:
    """Return the caller as one of the tenant that is asked for, which only an operator may be; it is audited."""
    tenant = call.values.get("tenant")
    if tenant is None or tenant == call.by.tenant:
        return call.by
    reader = replace(call.by, tenant=tenant)
    if not call.by.may_read_all_of(tenant):
        raise only_operators(Scope.ADMIN_READ)
    call.scheduler.past.note_read(tenant, by=call.by)
    return reader


def read_by(call: RestCall) -> dict[str, Any]:
    """Return the caller and the tenant that is asked for, as the history takes them: `*` is all tenants."""
    if not of_all_tenants(call):
        return {"by": reader_of(call)}
    if not call.by.may_read_all_of(None):
        raise only_operators(Scope.ADMIN_READ)
    call.scheduler.past.note_read(ALL_TENANTS, by=call.by)
    return {"by": call.by, "tenant": ALL_TENANTS}


def tenant_of(call: RestCall) -> str | None:
    """Return the tenant that is asked for, None for all, for operators alone; that is in the audit log."""
    who = read_by(call)
    return tenant_read(who["by"], who.get("tenant"))


def of_all_tenants(call: RestCall) -> bool:
    """Whether a call requests all tenants together."""
    return call.values.get("tenant") == ALL_TENANTS


def events(call: RestCall) -> RestAnswer:
    """Return a page of the events of a tenant, or of all."""
    who, limit, cursor = read_by(call), call.values.get("limit", 50), call.values.get("cursor")
    page = call.scheduler.past.events(_event_filter(call), **_event_bounds(call), limit=limit, cursor=cursor, **who)
    view = None if of_all_tenants(call) else _asked_task(call, who["by"])
    found = events_json(call.scheduler, page, view, first=cursor is None, **who)
    return RestAnswer(EventsPayload.model_validate(found), cursor=page.cursor)


def _asked_task(call: RestCall, by: Principal) -> TaskView | None:
    """Return the task of which events are asked for, if there is one."""
    if "task_id" in call.values:
        with suppress(TaskNotFound):
            return call.scheduler.get(call.task_id, by=by)
    return None


def event_counts(call: RestCall) -> RestAnswer:
    """Return the number of events by group."""
    who, group = read_by(call), EventGroup(call.values.get("group", EventGroup.KIND))
    found = call.scheduler.past.event_counts(group, _event_filter(call), **_event_bounds(call), **who)
    return RestAnswer(EventCountsPayload.model_validate(counts_json(found)))


def event_buckets(call: RestCall) -> RestAnswer:
    """Return the number of events by time."""
    who, width = read_by(call), BucketWidth(call.values.get("width", BucketWidth.HOUR))
    found = call.scheduler.past.event_buckets(width, _event_filter(call), **_event_bounds(call), **who)
    return RestAnswer(EventBucketsPayload.model_validate(buckets_json(found)))


def _event_filter(call: RestCall) -> EventFilter:
    given = call.without("tenant", "since", "until", "limit", "cursor", "group", "width")
    return event_filter(**given)


def _event_bounds(call: RestCall) -> dict[str, Any]:
    return {name: call.values.get(name) for name in ("since", "until")}


def event_payload(event: Event, zone: str) -> EventPayload:
    """Return an event; times that it changed are wall times of `zone`."""
    return EventPayload.model_validate(event_json(event, zone))


def attempts(call: RestCall) -> RestAnswer:
    """Return the newest attempts of a task."""
    call.scheduler.get(call.task_id, by=call.by)
    found = call.scheduler.past.attempts(call.task_id, by=call.by)
    runs = {run_id: number for number, run_id in enumerate(dict.fromkeys(each.run_id for each in found), start=1)}
    limit = call.values.get("limit", 50)
    shown = tuple(attempt_payload(each, runs[each.run_id]) for each in reversed(found[-limit:]))
    return RestAnswer(AttemptsPayload(attempts=shown, older=len(found) > limit or None))


_EVENT_FILTERS = (
    Argument("task_id", Text(40), "Only this task"),
    Argument("since", TIME, "From this time on: 'friday', 'last night'", "since='yesterday'"),
    Argument("until", TIME, "Before this time", "until='yesterday'"),
    Argument("state", Choice(tuple(State)), "Only moves to this state", "state='failed'"),
    Argument("kind", Choice(tuple(EventKind)), "Only events of this kind", "kind='paused'"),
    Argument("actor", Text(200), "Only changes by this user or worker"),
    Argument("via", Text(200), "Only changes that came by this surface, or surface and address", "via='mcp'"),
    Argument("action", Text(100), "Only tasks with this action"),
    Argument("label", Text(60), "Only tasks with this label"),
    Argument("priority", Choice(tuple(Tier)), "Only of tasks of this priority", "priority='high'"),
    Argument("worker", Text(200), "Only of runs that this worker attempted"),
    Argument("min_attempts", Whole(1, MAX_ATTEMPT_COUNT), "Only of runs with at least this many attempts"),
    Argument("min_duration", LENGTH, "Only of runs that took at least this long: '90 s'", "min_duration='90 s'"),
    Argument("max_duration", LENGTH, "Only of runs that took at most this long", "max_duration='5 min'"),
    Argument(
        "min_lateness", LENGTH, "Only of runs that ended at least this long after the deadline", "min_lateness='1 min'"
    ),
    Argument(
        "min_delay", LENGTH, "Only of runs that started at least this long after they were due", "min_delay='30 s'"
    ),
    Argument("min_cost", Text(20), "Only of runs that cost so much", "min_cost='0.50'"),
    Argument("error", Text(200), "Only of runs whose error contains this", "error='HTTP 503'"),
    Argument("text", Text(200), "Only events whose task or reason contains this"),
    Argument("title", Text(200), "Only of tasks whose title contains this", "title='invoice'"),
    TENANT,
)
OF_HISTORY = (
    Operation(
        "list_attempts",
        "GET",
        "/tasks/{task_id}/attempts",
        "List the attempts of a task, newest first, with the tracebacks of recent failures",
        attempts,
        AttemptsPayload,
        in_path=(TASK_ID,),
        in_query=(LIMIT,),
    ),
    Operation(
        "list_events",
        "GET",
        "/events",
        "List what happened to the tasks of a tenant, newest first",
        events,
        EventsPayload,
        Scope.ADMIN_READ,
        in_query=(
            *_EVENT_FILTERS,
            LIMIT,
            CURSOR,
        ),
        paged=True,
    ),
    Operation(
        "count_events",
        "GET",
        "/events/counts",
        "Count what happened to the tasks of a tenant by group",
        event_counts,
        EventCountsPayload,
        Scope.ADMIN_READ,
        in_query=(*_EVENT_FILTERS, Argument("group", Choice(tuple(EventGroup)), "By what; default kind")),
    ),
    Operation(
        "count_events_by_time",
        "GET",
        "/events/buckets",
        "Count what happened to the tasks of a tenant by time and kind",
        event_buckets,
        EventBucketsPayload,
        Scope.ADMIN_READ,
        in_query=(*_EVENT_FILTERS, Argument("width", Choice(tuple(BucketWidth)), "Default hour")),
    ),
)

"""Runs of a tenant: one query over all of them, by page, by group and by time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Literal

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.runs import BucketWidth, RunFilter, RunGroup
from duetime.scheduler.principal import Scope
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.scheduler.task import State, Tier
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.query_words import STATES_ABOUT, StateList
from duetime.server.rest.resources.history import (
    CURSOR,
    LENGTH,
    LIMIT,
    MAX_ATTEMPT_COUNT,
    TENANT,
    of_all_tenants,
    read_by,
)
from duetime.server.rest.resources.payloads import RestPayload
from duetime.server.rest.resources.run_detail import RunDetailPayload, show
from duetime.tools.admin.run_rows import buckets_json, cost_given, counts_json, page_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.choices import Choice
from duetime.tools.arguments.filters import parts_of
from duetime.tools.arguments.types import Flag, Text, Whole
from duetime.tools.definition import TIME
from pydantic import Field

_LENGTHS: Final = ("min_duration", "max_duration", "min_lateness", "min_delay")
_BOUNDS: Final = ("since", "until")


class RunPayload(RestPayload):
    """A run with what its task says. `at` is when it ended, or its next time while it is open.

    `paused`, `cancel_requested` (it is stopping) and `blocked` stand before the state, as in a task. `why` is by whom a
    cancelled one was cancelled, and the reason, what a blocked one misses, or what is wrong with a damaged one.
    `delay_seconds` is from when it was due to the start of its first attempt. `duration_seconds` is from there to its
    end, with the pauses between attempts. `late_seconds` is from the deadline to the end: negative when it was in time.
    `units` are what it used of each pool, `cost` is what that cost, in the installation's currency, where a pool has a
    price. Where all tenants were asked for, `tenant` is there too.
    """

    id: str
    task_id: str
    tenant: str | None = None
    title: str
    action: str
    state: State
    paused: Literal[True] | None = None
    cancel_requested: Literal[True] | None = None
    blocked: Literal[True] | None = None
    priority: Tier
    labels: tuple[str, ...] | None = None
    at: str
    scheduled_for: str
    started_at: str | None = None
    ended_at: str | None = None
    deadline: str | None = None
    timezone: str
    attempts: int
    worker: str | None = None
    error: str | None = None
    why: str | None = None
    duration_seconds: float | None = None
    delay_seconds: float | None = None
    late_seconds: float | None = None
    units: dict[str, float] | None = None
    cost: str | None = None
    damaged: Literal[True] | None = None


class RunsPayload(RestPayload):
    """One page of runs, newest first by default. It may be short: `cursor` continues behind `searched_to`.

    `since` and `until` are how the bounds were read that were asked for.
    """

    schema_: Annotated[Literal["duetime.runs/1"], Field(alias="schema")] = "duetime.runs/1"
    runs: tuple[RunPayload, ...]
    cursor: str | None = None
    searched_to: str | None = None
    since: str | None = None
    until: str | None = None


class RunCountsPayload(RestPayload):
    """Runs by group, the largest first; with `counted_to`, older ones were not counted."""

    schema_: Annotated[Literal["duetime.run_counts/1"], Field(alias="schema")] = "duetime.run_counts/1"
    by: RunGroup
    counts: dict[str, int]
    counted_to: str | None = None


class BucketPayload(RestPayload):
    """Runs by state in the time from `start` to that of the next one."""

    start: str
    counts: dict[State, int]


class RunBucketsPayload(RestPayload):
    """Runs by time, oldest first, without empty buckets; days are those of `timezone`."""

    schema_: Annotated[Literal["duetime.run_buckets/1"], Field(alias="schema")] = "duetime.run_buckets/1"
    width: BucketWidth
    timezone: str
    buckets: tuple[BucketPayload, ...]
    counted_to: str | None = None


def runs(call: RestCall) -> RestAnswer:
    """Return a page of runs."""
    who, limit, cursor = read_by(call), call.values.get("limit", 50), call.values.get("cursor")
    page = call.scheduler.past.runs(_filter(call.values), **_bounds(call.values), limit=limit, cursor=cursor, **who)
    read = {name: utc(at) for name in _BOUNDS if (at := getattr(page.where, name)) is not None}
    payload = RunsPayload.model_validate({**page_json(page, everywhere=of_all_tenants(call)), **read})
    return RestAnswer(payload, cursor=page.cursor)


def counts(call: RestCall) -> RestAnswer:
    """Return the number of runs by group."""
    who, group = read_by(call), RunGroup(call.values.get("group", RunGroup.STATE))
    found = call.scheduler.past.run_counts(group, _filter(call.values), **_bounds(call.values), **who)
    return RestAnswer(RunCountsPayload.model_validate(counts_json(found)))


def buckets(call: RestCall) -> RestAnswer:
    """Return the number of runs by time."""
    who, width = read_by(call), BucketWidth(call.values.get("width", BucketWidth.HOUR))
    found = call.scheduler.past.run_buckets(width, _filter(call.values), **_bounds(call.values), **who)
    return RestAnswer(RunBucketsPayload.model_validate(buckets_json(found)))


def _filter(values: Mapping[str, Any]) -> RunFilter:
    texts = ("task_id", "action", "label", "worker", "actor", "text", "title", "error", "pool")
    plain = (*texts, "min_attempts", "oldest_first")
    given: dict[str, Any] = {name: values[name] for name in plain if name in values}
    given |= {name: _length(name, values[name]) for name in _LENGTHS if name in values}
    if "priority" in values:
        given["tier"] = Tier(values["priority"])
    if "min_units" in values:
        given["min_units"] = float(values["min_units"])
    if "min_cost" in values:
        given["min_cost"] = cost_given(values["min_cost"])
    return RunFilter(**parts_of(values.get("state")), **given)


def _bounds(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values.get(name) for name in _BOUNDS}


def _length(argument: str, text: str) -> timedelta:
    try:
        return parse_exact(text)
    except (Misread, Unknown):
        example = f"{argument}='90 s'"
        raise InvalidArgument(argument, "it is not a duration", accepted="'90 s', '5 min'", example=example) from None


_FILTERS = (
    Argument("task_id", Text(40), "Only runs of this task"),
    Argument("state", StateList(), STATES_ABOUT, "state='failed'"),
    Argument("action", Text(100), "Only of tasks with this action"),
    Argument("priority", Choice(tuple(Tier)), "Only of this priority", "priority='high'"),
    Argument("label", Text(60), "Only of tasks with this label"),
    Argument("worker", Text(200), "That this worker attempted"),
    Argument("actor", Text(200), "Whose task belongs to this user, or that this user changed"),
    Argument("text", Text(200), "In the title, the error, or the reason of an attempt"),
    Argument("title", Text(200), "In the title", "title='invoice'"),
    Argument("error", Text(200), "In the error", "error='HTTP 503'"),
    Argument("since", TIME, "From this time on: 'last night'", "since='yesterday'"),
    Argument("until", TIME, "Before this time; default: now", "until='now'"),
    Argument("min_duration", LENGTH, "That took at least this long: '90 s'", "min_duration='90 s'"),
    Argument("max_duration", LENGTH, "That took at most this long", "max_duration='5 min'"),
    Argument("min_lateness", LENGTH, "That ended at least this long after the deadline", "min_lateness='1 min'"),
    Argument("min_delay", LENGTH, "That started at least this long after they were due", "min_delay='30 s'"),
    Argument("min_attempts", Whole(1, MAX_ATTEMPT_COUNT), "With at least this many attempts"),
    Argument("pool", Text(110), "That used this pool"),
    Argument("min_units", Whole(0), "That used at least this many units of it, or of all pools together"),
    Argument("min_cost", Text(20), "That cost at least so much, in the installation's currency", "min_cost='0.50'"),
    TENANT,
)
_ORDER = Argument("oldest_first", Flag(), "Begin with the earliest time", "oldest_first=true")
_RUN_ID = Argument("run_id", Text(40), "The id of a run", "run_id='r_7k3m9qx2w4hb'", required=True)
RUN_OPERATIONS = (
    Operation(
        "list_runs",
        "GET",
        "/runs",
        "List runs of a tenant, newest first by default",
        runs,
        RunsPayload,
        Scope.ADMIN_READ,
        in_query=(*_FILTERS, _ORDER, LIMIT, CURSOR),
        paged=True,
    ),
    Operation(
        "count_runs",
        "GET",
        "/runs/counts",
        "Count runs of a tenant by group",
        counts,
        RunCountsPayload,
        Scope.ADMIN_READ,
        in_query=(
            *_FILTERS,
            Argument("group", Choice(tuple(RunGroup)), "By what"),
        ),
    ),
    Operation(
        "count_runs_by_time",
        "GET",
        "/runs/buckets",
        "Count runs of a tenant by time and state",
        buckets,
        RunBucketsPayload,
        Scope.ADMIN_READ,
        in_query=(*_FILTERS, Argument("width", Choice(tuple(BucketWidth)), "Default hour")),
    ),
    Operation(
        "get_run",
        "GET",
        "/runs/{run_id}",
        "Show one run with its payload, result, attempts, events and deliveries",
        show,
        RunDetailPayload,
        Scope.ADMIN_READ,
        in_path=(_RUN_ID,),
        in_query=(TENANT,),
    ),
)

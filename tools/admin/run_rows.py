"""Runs of the history as JSON: for the command line, REST, the admin page and models."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.history.runs import RunCounts, RunFilter, RunPage, RunSummary, TimeBuckets
from duetime.scheduler.intake.validation import is_number
from duetime.scheduler.rules.limits.price import money, read_amount
from duetime.scheduler.rules.time import times
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.scheduler.task import Json, Tier
from duetime.scheduler.view_parts import LogLine, RunLog
from duetime.tools.admin.event_rows import counted_to
from duetime.tools.arguments.filters import parts_of

RunJson = dict[str, Json]
STANDINGS = ("paused", "cancel_requested", "blocked")
"""Fields of a run that qualify its state, as they do in the payload of a task."""

RUN_COLUMNS = (
    *("id", "task_id", "tenant", "title", "action", "priority", "labels", "state", *STANDINGS, "damaged", "at"),
    *("scheduled_for", "started_at", "ended_at", "deadline", "timezone", "duration_seconds", "delay_seconds"),
    *("late_seconds", "attempts", "worker", "error", "why", "units", "cost"),
)
"""Columns of a file of runs, in their order."""

SPAN_ARGUMENTS = ("min_duration", "max_duration", "min_lateness", "min_delay")


def run_filter(
    *,
    state: str | None = None,
    priority: str | None = None,
    min_units: float | None = None,
    min_cost: str | float | None = None,
    **others: str | int | None,
) -> RunFilter:
    """Return the filter that words ask for; lengths of time are words or seconds. Raises InvalidArgument."""
    spans = {name: read_span(name, others.pop(name)) for name in SPAN_ARGUMENTS if others.get(name) is not None}
    given: dict[str, object] = {name: value for name, value in others.items() if value is not None}
    numbers = {"min_units": min_units, "min_cost": None if min_cost is None else cost_given(min_cost)}
    return RunFilter(**parts_of(state), tier=read_tier(priority), **numbers, **given, **spans)  # type: ignore[arg-type]  # names of its fields


def cost_given(given: str | float) -> Decimal:
    """Return the amount that `min_cost` names. Raises InvalidArgument."""
    try:
        return read_amount(str(given).strip())
    except ValueError as wrong:
        accepted = "an amount in the installation's currency, with at most 6 places"
        raise InvalidArgument("min_cost", str(wrong), accepted=accepted, example="min_cost='0.50'") from None


def read_tier(word: str | None) -> Tier | None:
    """Return the tier that a priority names. Raises InvalidArgument."""
    if word is None:
        return None
    try:
        return Tier(word.strip().lower())
    except ValueError:
        raise InvalidArgument(
            "priority", "there is no such priority", accepted=", ".join(Tier), example="priority='high'"
        ) from None


def read_span(name: str, given: str | float | None) -> timedelta:
    """Return the length of time that words, or a number of seconds, mean. Raises InvalidArgument."""
    try:
        return timedelta(seconds=float(given or 0)) if is_number(given) else parse_exact(str(given))
    except (Misread, Unknown, OverflowError) as error:
        problem = error.problem if isinstance(error, Misread) else "it is not a duration"
        raise InvalidArgument(name, problem, accepted="a duration, or seconds", example=f"{name}='5 min'") from None


def log_json(log: RunLog) -> RunJson:
    """Return lines of a run's log; a reader continues behind the `place` of the last one."""
    found: RunJson = {"schema": "duetime.run_log/1", "run_id": log.run_id, "task_id": log.task_id}
    found |= {"lines": [_log_line(line) for line in log.lines], "ended": log.ended}
    return found | ({"cut": log.cut} if log.cut else {}) | ({"more": True} if log.more else {})


def _log_line(line: LogLine) -> RunJson:
    row: RunJson = {"place": line.place, "attempt": line.attempt, "at": times.utc(line.at)}
    return row | {"level": line.level, "logger": line.logger, "text": line.text}


def run_row(run: RunSummary, *, everywhere: bool = False) -> RunJson:
    """Return what is known of a run, with its tenant among runs of `everywhere`; what it does not have is left out."""
    return {name: value for name, value in _known(run, run.tenant if everywhere else None).items() if value is not None}


def _known(run: RunSummary, tenant: str | None) -> RunJson:
    return {
        "id": run.id,
        "task_id": run.task_id,
        "tenant": tenant,
        "title": run.title,
        "action": run.action,
        "state": run.state.value,
        "paused": run.held or None,
        "cancel_requested": run.stopping or None,
        "blocked": run.blocked or None,
        "damaged": bool(run.damage) or None,
        "priority": run.tier.value,
        "labels": list(run.labels) or None,
        "at": times.utc(run.at),
        "scheduled_for": times.utc(run.scheduled_for),
        "started_at": times.utc_or_none(run.started_at),
        "ended_at": times.utc_or_none(run.ended_at),
        "deadline": times.utc_or_none(run.deadline),
        "timezone": run.timezone,
        "duration_seconds": _seconds(run.duration),
        "delay_seconds": _seconds(run.delay),
        "late_seconds": _seconds(run.lateness),
        "attempts": run.attempt,
        "worker": run.worker,
        "error": run.error,
        "why": run.why or "; ".join(run.damage) or None,
        "units": dict(run.units) or None,
        "cost": None if run.cost is None else money(run.cost),
    }


def file_row(run: RunSummary) -> RunJson:
    """Return a run as the row of a file of many tenants, with every column."""
    row = run_row(run, everywhere=True)
    return {name: row.get(name) for name in RUN_COLUMNS}


def page_json(page: RunPage, *, everywhere: bool = False) -> RunJson:
    """Return a page of runs."""
    rows: list[Json] = [run_row(run, everywhere=everywhere) for run in page.runs]
    found: RunJson = {"schema": "duetime.runs/1", "runs": rows}
    more: RunJson = {"cursor": page.cursor, "searched_to": times.utc_or_none(page.searched_to)}
    return found | {name: value for name, value in more.items() if value is not None}


def counts_json(found: RunCounts) -> RunJson:
    """Return counts by group."""
    counts: RunJson = {"schema": "duetime.run_counts/1", "by": found.by.value, "counts": dict(found.counts)}
    return counts | counted_to(found.counted_to)


def buckets_json(found: TimeBuckets) -> RunJson:
    """Return counts by time and state."""
    rows: list[Json] = [
        {"start": times.utc(each.start), "counts": {state.value: count for state, count in each.counts.items()}}
        for each in found.buckets
    ]
    known: RunJson = {"schema": "duetime.run_buckets/1", "width": found.width.value, "timezone": found.zone}
    return known | {"buckets": rows} | counted_to(found.counted_to)


def _seconds(span: timedelta | None) -> float | None:
    return None if span is None else span.total_seconds()

"""The report by which a worker elsewhere finishes a run, and the outcome that it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers.declaration import Handler
from duetime.scheduler.handlers.invocation import checked_outcome
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Yielded
from duetime.scheduler.rules.sanitize import check_json
from duetime.scheduler.rules.time.durations import parse_exact
from duetime.scheduler.rules.time.tokens import Misread, Unknown
from duetime.scheduler.task import Json

MAX_RETRY_IN: Final = timedelta(days=365)
WORKER_GAVE_WAY: Final = "its external worker gave way"
NO_REASON: Final = "its external worker gave no reason"


class ReportedOutcome(StrEnum):
    """The outcome of an attempt, as its worker reports it."""

    DONE = "done"
    RETRY = "retry"
    FAILED = "failed"
    YIELDED = "yielded"


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A worker's report on an attempt; `usage` is what it really used of the pools that the run needs."""

    outcome: ReportedOutcome
    summary: str = ""
    result: Json = None
    error: str = ""
    retry_in: str | float | None = None
    usage: Mapping[str, float] = field(default_factory=dict)


def checked_result(handler: Handler, report: WorkerReport, now: datetime) -> Outcome:
    """Return the outcome that a report means, as a local handler would return it. Raises InvalidArgument."""
    check_json("result", report.result)
    return checked_outcome(handler, _outcome(report), now, lambda: now)


def _outcome(report: WorkerReport) -> Outcome:
    match report.outcome:
        case ReportedOutcome.DONE:
            _refuse(report, error="outcome='failed'", retry_in="outcome='retry'")
            return Done(report.summary, report.result)
        case ReportedOutcome.RETRY:
            return Retry(_reason(report), _after(report.retry_in), report.result)
        case ReportedOutcome.FAILED:
            _refuse(report, retry_in="outcome='retry'")
            return Failed(_reason(report), report.result)
        case ReportedOutcome.YIELDED:
            _refuse(report, error="outcome='retry'", retry_in="outcome='retry'", result="outcome='done'")
            return Yielded(None, report.summary or WORKER_GAVE_WAY)


def _refuse(report: WorkerReport, **meant: str) -> None:
    """Raise InvalidArgument for members that this outcome does not have; each names the outcome that has it."""
    for name, example in meant.items():
        if getattr(report, name) not in ("", None):
            problem = f"an outcome {report.outcome.value!r} has none"
            raise InvalidArgument(name, problem, accepted=f"no {name}, or the outcome that has one", example=example)


def _reason(report: WorkerReport) -> str:
    return report.error or report.summary or NO_REASON


def _after(given: str | float | None) -> timedelta | None:
    if given is None:
        return None
    try:
        found = timedelta(seconds=given) if isinstance(given, int | float) else parse_exact(given)
    except (Misread, Unknown, OverflowError):
        found = timedelta(-1)
    if not timedelta(0) <= found <= MAX_RETRY_IN:
        accepted = "a length of time of at most 365 days, or seconds"
        raise InvalidArgument("retry_in", "it is not a length of time", accepted=accepted, example="retry_in='5 min'")
    return found

"""Report of the work of some time: what was missed, how late, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from duetime.scheduler.foresight.report_text import report_lines
from duetime.scheduler.history.work_report import ActionWork, WorkDone, WorkReport
from duetime.scheduler.principal import Scope
from duetime.scheduler.rules.limits.price import money
from duetime.scheduler.rules.time.times import utc
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.history import TENANT, read_by
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.arguments.arguments import Argument
from duetime.tools.definition import TIME
from pydantic import Field


class ActionWorkPayload(RestPayload):
    """The runs of an action that ended: those with `deadlines`, and of these the `missed` ones, late by so much."""

    action: str
    ended: int
    failed: int
    dead_letters: int
    expired: int
    cancelled: int
    deadlines: int
    missed: int
    late: int
    lateness_seconds: float
    latest_seconds: float


class WorkPayload(RestPayload):
    """The runs that ended from `since` on and before `until`; with `at_least` there were more."""

    since: str
    until: str
    at_least: bool
    total: ActionWorkPayload
    actions: tuple[ActionWorkPayload, ...]
    units: Mapping[str, float]
    cost: str


class ReportPayload(WorkPayload):
    """The work of some time, that of the same time `before`, and both as `text`: a line for each question."""

    schema_: Annotated[Literal["duetime.report/1"], Field(alias="schema")] = "duetime.report/1"
    currency: str
    before: WorkPayload
    text: tuple[str, ...]


def report(call: RestCall) -> RestAnswer:
    """Return the report of a tenant, or of all."""
    found = call.scheduler.reports.work(since=call.values.get("since"), **read_by(call))
    return RestAnswer(report_payload(found, call.scheduler.zone or "UTC", call.scheduler.reports.currency))


def report_payload(found: WorkReport, zone: str, currency: str) -> ReportPayload:
    """Return a report with its lines in words, whose wall times are those of the zone."""
    lines = tuple(report_lines(found, zone, currency))
    return ReportPayload(currency=currency, **_work(found.work), before=WorkPayload(**_work(found.before)), text=lines)


def _work(work: WorkDone) -> dict[str, object]:
    return {
        "since": utc(work.since),
        "until": utc(work.until),
        "at_least": work.at_least,
        "total": _action(work.total()),
        "actions": tuple(map(_action, work.actions)),
        "units": dict(work.units),
        "cost": money(work.cost),
    }


def _action(work: ActionWork) -> ActionWorkPayload:
    return ActionWorkPayload(
        action=work.action,
        ended=work.ended,
        failed=work.failed,
        dead_letters=work.dead_letters,
        expired=work.expired,
        cancelled=work.cancelled,
        deadlines=work.deadlines,
        missed=work.missed,
        late=work.late,
        lateness_seconds=work.lateness.total_seconds(),
        latest_seconds=work.latest.total_seconds(),
    )


OF_REPORTS = (
    Operation(
        "get_report",
        "GET",
        "/report",
        "Report what was missed, how late, and what it cost",
        report,
        ReportPayload,
        Scope.ADMIN_READ,
        in_query=(Argument("since", TIME, "From this time on; default: 7 days ago", "since='last monday'"), TENANT),
    ),
)

"""Quiet hours: the user's own, and for administrators those of other users."""

from __future__ import annotations

from typing import Annotated, Literal

from duetime.scheduler.service.quiet_hours import QuietHoursView
from duetime.server.rest.operation import Operation, RestAnswer, RestCall
from duetime.server.rest.resources.payloads import RestPayload
from duetime.tools.admin.quiet_hours_rows import quiet_hours_json
from duetime.tools.arguments.arguments import Argument
from duetime.tools.arguments.types import Text
from pydantic import Field


class QuietHoursPayload(RestPayload):
    """The quiet hours in force for a user: `own` ones, or those of the settings; without `hours` no hour is quiet.

    `until` is when the quiet hours of this moment end.
    """

    schema_: Annotated[Literal["duetime.quiet_hours/1"], Field(alias="schema")] = "duetime.quiet_hours/1"
    tenant: str
    user: str
    hours: str | None = None
    own: bool
    until: str | None = None


def show(call: RestCall) -> RestAnswer:
    """Return the hours in force."""
    found = call.scheduler.quiet_hours.read(**call.values, by=call.by)
    call.scheduler.past.note_read(call.values.get("tenant"), by=call.by)
    return _answer(found)


def set_(call: RestCall) -> RestAnswer:
    """Store the hours of a user."""
    return _answer(call.scheduler.quiet_hours.set(**call.values, by=call.by))


def clear(call: RestCall) -> RestAnswer:
    """Forget the hours of a user."""
    return _answer(call.scheduler.quiet_hours.clear(**call.values, by=call.by))


def _answer(view: QuietHoursView) -> RestAnswer:
    return RestAnswer(QuietHoursPayload.model_validate(quiet_hours_json(view)))


_WHOSE = (
    Argument("user", Text(200), "Of this user, for administrators", "user='ann'"),
    Argument("tenant", Text(200), "Of a user of this tenant, for operators", "tenant='acme'"),
)
_HOURS = Argument(
    "hours", Text(100), "Two times of day, with a zone; or `none`", "hours='22:00-07:00 America/Denver'", required=True
)
OF_QUIET_HOURS = (
    Operation(
        "get_quiet_hours",
        "GET",
        "/quiet-hours",
        "Show the caller's quiet hours, in which nothing is delivered that can wait",
        show,
        QuietHoursPayload,
        in_query=_WHOSE,
    ),
    Operation(
        "set_quiet_hours",
        "PUT",
        "/quiet-hours",
        "Set quiet hours that go before those of the settings",
        set_,
        QuietHoursPayload,
        body=(_HOURS, *_WHOSE),
    ),
    Operation(
        "clear_quiet_hours",
        "DELETE",
        "/quiet-hours",
        "Forget the quiet hours that were set, so that those of the settings count again",
        clear,
        QuietHoursPayload,
        in_query=_WHOSE,
    ),
)

"""Quiet hours of a user as an answer shows them."""

from __future__ import annotations

from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.service.quiet_hours import QuietHoursView
from duetime.scheduler.task import Json


def quiet_hours_json(view: QuietHoursView) -> dict[str, Json]:
    """Return the hours in force as `duetime.quiet_hours/1`; what there is none of is left out."""
    hours: dict[str, Json] = {"hours": str(view.hours)} if view.hours else {}
    until: dict[str, Json] = {"until": utc(view.until)} if view.until else {}
    whose: dict[str, Json] = {"tenant": view.tenant, "user": view.user}
    return {"schema": "duetime.quiet_hours/1", **whose, **hours, "own": view.own, **until}

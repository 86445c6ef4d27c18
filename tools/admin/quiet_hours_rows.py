"""Quiet hours of a user as an answer shows them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from duetime.scheduler.rules.time.times import describe, utc
from duetime.scheduler.service.quiet_hours import QuietHoursView
from duetime.scheduler.task import Json


def quiet_hours_json(view: QuietHoursView) -> dict[str, Json]:
    """Return the hours in force as `duetime.quiet_hours/1`; what there is none of is left out."""
    hours: dict[str, Json] = {"hours": str(view.hours)} if view.hours else {}
    until: dict[str, Json] = {"until": utc(view.until)} if view.until else {}
    whose: dict[str, Json] = {"tenant": view.tenant, "user": view.user}
    return {"schema": "duetime.quiet_hours/1", **whose, **hours, "own": view.own, **until}


def quiet_hours_text(found: Mapping[str, Any]) -> str:
    """Say which hours are in force, whose they are, and when those of this moment end."""
    whose = " of ".join(dict.fromkeys((found["user"], found["tenant"])))
    source = "set for this user" if found["own"] else "by the settings"
    if not found.get("hours"):
        return f"No quiet hours for {whose}, {source}."
    text = f"Quiet hours of {whose}: {found['hours']}, {source}."
    return f"{text} {_end(found)}" if found.get("until") else text


def _end(found: Mapping[str, Any]) -> str:
    """Say when the hours of this moment end, by their own clock."""
    zone = str(found["hours"]).split()[-1]
    return f"They end {describe(datetime.fromisoformat(found['until']), zone)} {zone}."

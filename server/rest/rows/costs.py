"""Costs as JSON: amounts are decimal numbers as text."""

from __future__ import annotations

from duetime.scheduler.history.costs import CostLine, Costs
from duetime.scheduler.rules.limits.price import money
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.task import Json
from duetime.widgets.formats.rows import present


def costs_json(found: Costs) -> dict[str, Json]:
    """Return costs by group."""
    return {
        "schema": "duetime.costs/1",
        "group": found.group.value,
        "currency": found.currency,
        "timezone": found.zone,
        "since": utc(found.since),
        "until": utc(found.until),
        "total": money(found.total),
        "costs": [*map(_line, found.lines)],
    }


def _line(line: CostLine) -> dict[str, Json]:
    return present({"key": line.key, "title": line.title, "cost": money(line.cost)})

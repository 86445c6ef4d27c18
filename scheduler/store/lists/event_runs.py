"""The conditions of a filter for events on the run of each event, compared as for a list of runs: by one look at it."""

from __future__ import annotations

from typing import Any, Final

from duetime.scheduler.events import EventFilter
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.store.database.dialects import StoreDialect
from duetime.scheduler.store.lists import run_filter
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.text_index.text_search import Condition
from sqlalchemy import and_, select, true

_OF_RUN: Final = (
    *("worker", "error", "min_attempts", "min_cost"),
    *("min_duration", "max_duration", "min_lateness", "min_delay"),
)


def of_run(tenant: str, where: EventFilter, dialect: StoreDialect) -> list[Condition]:
    """Return one condition for all that the run of an event decides, none where the filter compares nothing of it."""
    asked: dict[str, Any] = {name: getattr(where, name) for name in _OF_RUN}
    found = run_filter.compared(tenant, RunFilter(**asked), dialect)
    if not found:
        return []
    looked_at = select(and_(*found)).where(runs.c.id == events.c.run_id, runs.c.tenant == events.c.tenant)
    return [looked_at.correlate(events).scalar_subquery().is_(true())]

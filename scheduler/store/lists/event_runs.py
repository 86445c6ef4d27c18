"""The conditions of a filter for events on the run of each event, compared as for a list of runs: by one look at it."""

from __future__ import annotations

from duetime.scheduler.events import EventFilter
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.store.database.dialects import StoreDialect
from duetime.scheduler.store.lists import run_filter
from duetime.scheduler.store.schema.tables.events import events
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.store.text_index.text_search import Condition, has_text
from sqlalchemy import and_, select, true


def of_run(tenant: str, where: EventFilter, dialect: StoreDialect) -> list[Condition]:
    """Return one condition for all that the run of an event decides, none where the filter asks for nothing of it."""
    as_runs = RunFilter(
        worker=where.worker, min_attempts=where.min_attempts, min_lateness=where.min_lateness, min_cost=where.min_cost
    )
    found = run_filter.compared(tenant, as_runs, dialect)
    if where.error is not None:
        found.append(has_text(runs.c.error, where.error))
    if not found:
        return []
    looked_at = select(and_(*found)).where(runs.c.id == events.c.run_id, runs.c.tenant == events.c.tenant)
    return [looked_at.correlate(events).scalar_subquery().is_(true())]

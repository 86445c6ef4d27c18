"""The overview: counts by state."""

from __future__ import annotations

from duetime.scheduler.intake.validation import MAX_TASKS_COUNTED
from duetime.scheduler.task import State, TaskFilter
from duetime.server.admin.answers import Page, get
from duetime.server.admin.visit import Visit


def overview(visit: Visit) -> Page:
    """Show what there is and what needs somebody."""
    tenant = visit.tenant or visit.principal.tenant
    _, _, (counts, at_least) = visit.store.tasks.page_and_counts(
        tenant, TaskFilter(), limit=1, cursor=None, most=MAX_TASKS_COUNTED
    )
    sums = [
        (f"{counts[state]:,}{'+' if state in at_least else ''}", state, None, "")
        for state in State
        if counts.get(state)
    ]
    return Page("overview.html", "Overview", {"sums": sums, "total": sum(counts.values()), "live": True})


ROUTES = (get("/", overview),)

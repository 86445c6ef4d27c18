"""A call of `find_runs`: what it asks for."""

from __future__ import annotations

from dataclasses import dataclass

from duetime.scheduler.history.runs import RunFilter
from duetime.tools.admin.run_rows import SPAN_ARGUMENTS, run_filter


@dataclass(frozen=True, slots=True, kw_only=True)
class FindRuns:
    """A page of runs that all filters match, or their number by group or by time."""

    state: str | None = None
    since: str | None = None
    until: str | None = None
    text: str | None = None
    title: str | None = None
    error: str | None = None
    action: str | None = None
    priority: str | None = None
    label: str | None = None
    worker: str | None = None
    actor: str | None = None
    task_id: str | None = None
    min_duration: str | float | None = None
    max_duration: str | float | None = None
    min_delay: str | float | None = None
    min_lateness: str | float | None = None
    min_attempts: int | None = None
    pool: str | None = None
    min_units: int | None = None
    min_cost: str | float | None = None
    tenant: str | None = None
    event: str | None = None
    via: str | None = None
    count_by: str | None = None
    oldest_first: bool | None = None
    limit: int = 10
    cursor: str | None = None

    def where(self) -> RunFilter:
        """Return the filter."""
        named = ("state", "text", "title", "error", "action", "priority", "label", "worker", "actor", "task_id", "pool")
        bounds = ("min_attempts", "min_units", "min_cost", "oldest_first")
        return run_filter(**{name: getattr(self, name) for name in (*named, *SPAN_ARGUMENTS, *bounds)})

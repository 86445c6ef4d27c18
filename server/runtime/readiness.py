"""The answer of `/readyz`: whether tasks can be scheduled, and what else is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from duetime.scheduler.foresight.lateness import BacklogMonitor
from duetime.scheduler.queue import QueueTaken
from duetime.scheduler.store import Store


def readiness(store: Store, backlog: BacklogMonitor, away: Exception | None, *, verbose: bool) -> str:
    """Return `ok`, with any lesser problem: a queue that is `away`, a tier that is late.

    With `verbose`, further lines are the backlog of each tier, and the throughput. Raises StoreUnavailable when nothing
    can be scheduled.
    """
    store.history.latest()
    report = backlog.report()
    problems = [*_of_queue(away), *report.late()]
    state = f"ok, but {'; '.join(problems)}" if problems else "ok"
    return "\n".join((state, *report.lines())) if verbose else state


def _of_queue(away: Exception | None) -> Iterator[str]:
    if away is not None:
        wrong = str(away) if isinstance(away, QueueTaken) else "Redis is unreachable"
        yield f"{wrong}: tasks are stored and start when it is back"

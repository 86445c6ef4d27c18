"""Events of another process, as the tests of those who follow them write them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from duetime.scheduler.events import Event, EventKind
from duetime.scheduler.task import State

from tests.builders import NOON, TENANT


class Log:
    """An event log in memory: it fails as often as `failures` says, and keeps behind which events it was read."""

    def __init__(self, *ids: int, failures: tuple[Exception, ...] = ()) -> None:
        self.events = [event(number) for number in ids]
        self.failures = list(failures)
        self.outages: list[Exception] = []
        """Failures to say which event is the newest."""
        self.reads: list[int] = []
        self.owners: dict[str, str] = {}
        """The tenants of tasks, where that is asked."""
        self.owner_outages: list[Exception] = []
        """Failures to say whose tasks these are."""

    def latest(self) -> int:
        if self.outages:
            raise self.outages.pop(0)
        return self.events[-1].id if self.events else 0

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]:
        self.reads.append(event_id)
        if self.failures:
            raise self.failures.pop(0)
        return [each for each in self.events if each.id > event_id][:limit]

    def tenants(self, task_ids: Collection[str]) -> Mapping[str, str]:
        if self.owner_outages:
            raise self.owner_outages.pop(0)
        return {task_id: self.owners[task_id] for task_id in task_ids if task_id in self.owners}

    def add(self, *ids: int, tenant: str = TENANT, before: State | None = None) -> None:
        self.events += [event(number, tenant, before) for number in ids]


def event(number: int, tenant: str = TENANT, before: State | None = None) -> Event:
    return Event(number, tenant, f"t_{number}", None, 1, NOON, EventKind.RESCHEDULED, "alice", from_state=before)

"""Events of another process, as the tests of those who follow them write them."""

from __future__ import annotations

from duetime.scheduler.events import Event, EventKind

from tests.builders import NOON, TENANT


class Log:
    """An event log in memory: it fails as often as `failures` says, and keeps behind which events it was read."""

    def __init__(self, *ids: int, failures: tuple[Exception, ...] = ()) -> None:
        self.events = [event(number) for number in ids]
        self.failures = list(failures)
        self.outages: list[Exception] = []
        """Failures to say which event is the newest."""
        self.reads: list[int] = []

    def latest(self) -> int:
        if self.outages:
            raise self.outages.pop(0)
        return self.events[-1].id if self.events else 0

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]:
        self.reads.append(event_id)
        if self.failures:
            raise self.failures.pop(0)
        return [each for each in self.events if each.id > event_id][:limit]

    def add(self, *ids: int) -> None:
        self.events += [event(number) for number in ids]


def event(number: int) -> Event:
    return Event(number, TENANT, f"t_{number}", None, 1, NOON, EventKind.RESCHEDULED, "alice")

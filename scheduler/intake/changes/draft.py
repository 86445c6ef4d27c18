"""A reschedule while it is decided, which its steps complete one by one."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.intake.instants import resolve_moment
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.records import Change
from duetime.scheduler.rules.time import zones
from duetime.scheduler.rules.time.times import Resolved
from duetime.scheduler.rules.time.viewpoint import Frame
from duetime.scheduler.task import Task
from duetime.scheduler.views import TaskRecord

_PROBE: Final = timedelta(minutes=1)
"""Words that count from the time of an occurrence mean a time that is as much later as that one."""


@dataclass(frozen=True, slots=True)
class ChangeDraft:
    """The stored task, the call that changes it, and the change as far as it is decided.

    Each step of a reschedule takes a draft and returns the next one. `in_recurring_chain` is set for a step of such a
    chain, whose rule the task follows. `assumptions` say how times were read; `warnings` are all other notes.
    """

    record: TaskRecord
    request: Reschedule
    planner: Planner
    now: datetime
    change: Change
    in_recurring_chain: bool = False
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def task(self) -> Task:
        """The task as the change leaves it so far."""
        return self.change.task

    @property
    def zone(self) -> str:
        """The zone of the wall times in the call: the one it names, else that of the task."""
        return self.request.timezone or self.task.timezone

    @property
    def today(self) -> date:
        """The date in that zone."""
        return self.planner.times.today(self.request, self.now, self.task.timezone)

    def frame(self, moved_from: datetime | None = None, seen: datetime | None = None) -> Frame:
        """Return how the times of the call are read; `moved_from` is the time that `when` replaces, `seen` as that."""
        given, own = self.request.timezone, self.task.timezone
        return self.planner.times.frame(given, moved_from=moved_from, seen=seen, own=own)

    def length_on_the_clock(self, to: Resolved) -> timedelta | None:
        """Return the length of time that `when`, which was read as `to`, adds to the time of the run; None for others.

        It is that of clocks which never change: `2 hours later` and `1 day later` are as long on every day.
        """
        at, when = self.record.run.scheduled_for, self.request.when
        if when is None:
            return None
        with suppress(InvalidArgument):
            later = self.frame(moved_from=at + _PROBE)
            probe = resolve_moment(when, now=self.now, zone=self.zone, argument="when", frame=later)
            if probe.instant - to.instant == _PROBE:
                now, seen = (_as_utc(each, self.task.timezone) for each in (self.now, at))
                clock = self.frame(moved_from=seen)
                return resolve_moment(when, now=now, zone="UTC", argument="when", frame=clock).instant - seen
        return None

    def with_change(self, change: Change) -> ChangeDraft:
        return replace(self, change=change)

    def with_task(self, **fields: Any) -> ChangeDraft:
        """Change fields of the task."""
        return replace(self, change=replace(self.change, task=replace(self.task, **fields)))

    def with_request(self, **arguments: Any) -> ChangeDraft:
        """Replace arguments of the call that a step has dealt with, or has put into other words."""
        return replace(self, request=replace(self.request, **arguments))

    def assuming(self, *assumptions: str) -> ChangeDraft:
        return replace(self, assumptions=(*self.assumptions, *assumptions))

    def warning(self, *warnings: str) -> ChangeDraft:
        return replace(self, warnings=(*self.warnings, *warnings))


def _as_utc(instant: datetime, zone: str) -> datetime:
    """Return what the clocks of a zone show, as a time of UTC."""
    return instant.astimezone(zones.load(zone)).replace(tzinfo=UTC)

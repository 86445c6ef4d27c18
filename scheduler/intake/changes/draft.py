"""A reschedule while it is decided, which its steps complete one by one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from duetime.scheduler.calls.reschedule import Reschedule
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.records import Change
from duetime.scheduler.rules.time.viewpoint import Frame
from duetime.scheduler.task import Task
from duetime.scheduler.views import TaskRecord


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

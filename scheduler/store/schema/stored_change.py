"""A change of one task as it is stored: the values before and after it, from which all that follows is decided."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from duetime.scheduler.events import EventKind
from duetime.scheduler.task import Run, State, Task
from duetime.scheduler.views import TaskRecord


class StoredChange(NamedTuple):
    """The task before and after a change, what became of its run, and the run that is current now."""

    record: TaskRecord
    task: Task
    run: Run
    current: Run
    kind: EventKind

    @property
    def old_task(self) -> Task:
        return self.record.task

    @property
    def old_run(self) -> Run:
        return self.record.run

    @property
    def at(self) -> datetime:
        return self.task.updated_at

    @property
    def ends_run(self) -> bool:
        """Whether the run that was current ends by the change."""
        return bool(self.run.ended_at and not self.old_run.ended_at)

    @property
    def stops_waiting(self) -> bool:
        """Whether the run that was current waited, and is due at a time again."""
        return self.old_run.state is State.WAITING and self.run.state is State.SCHEDULED

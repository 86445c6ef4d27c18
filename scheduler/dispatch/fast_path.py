"""The direct way into the queue: what is due when it is scheduled is stored as ready, and handed to the dispatcher.

It need not be looked for in the database then, which takes longer than all the rest between the call and the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from duetime.scheduler.dispatch.dispatcher import AHEAD
from duetime.scheduler.records import ReadyRun
from duetime.scheduler.task import Run, State, TaskRecord


class DispatchTarget(Protocol):
    """A process that may be able to put runs into the queue. What it does not put after all is found within 30 s."""

    @property
    def dispatches(self) -> bool:
        """Whether it can now."""

    def place(self, run: ReadyRun) -> None:
        """Put a run that is stored as ready into the queue, soon."""


class FastPath:
    """Brings new runs forward, where `target` dispatches; `told` hears the ids of their tasks."""

    def __init__(self, target: DispatchTarget, told: Callable[[Sequence[str]], None]) -> None:
        self._target = target
        self._told = told

    def forward(self, run: Run, now: datetime) -> Run:
        """Return a new run as it should be stored: as ready, if it is due or will be in a moment."""
        if not self._target.dispatches or run.wake_at is None or run.wake_at > now + AHEAD:
            return run
        return replace(run, state=State.READY, wake_at=None, first_ready_at=max(now, run.wake_at))

    def put(self, record: TaskRecord) -> None:
        """Put the run of a task, which was stored as ready, into the queue."""
        self._target.place(_ready_run(record))
        self._told([record.task.id])


def _ready_run(record: TaskRecord) -> ReadyRun:
    task, run = record.task, record.run
    return ReadyRun(
        run.id,
        task.id,
        run.tenant,
        run.scheduled_for,
        run.first_ready_at or run.scheduled_for,
        task.action,
        tier=task.priority,
        needs=task.needs,
        deadline=run.deadline,
        deadline_type=task.deadline_type,
        estimate=task.estimate,
        drop_at=run.drop_at,
        created_at=task.created_at,
    )

"""Fast path: a run that is already due is stored as READY and handed straight to the dispatcher.

This saves the search in the database, which takes longer than all other steps between call and start. A run that is
due much later wakes no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from duetime.scheduler.dispatch.dispatcher import READY_AHEAD, WAKE_HORIZON
from duetime.scheduler.rules.states import blocked_by
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.task import Run, State
from duetime.scheduler.views import TaskRecord


class DispatchTarget(Protocol):
    """A process that may be able to put runs into the queue. A run that it fails to put is found within 30 s."""

    @property
    def dispatches(self) -> bool:
        """Whether it can put runs into the queue now."""

    def place(self, run: ReadyRun) -> None:
        """Put a run that was stored as READY into the queue, soon."""


class FastPath:
    """Moves due runs to the queue at once, where `target` dispatches; `on_queued` gets the ids of their tasks."""

    def __init__(self, target: DispatchTarget, on_queued: Callable[[Sequence[str]], None]) -> None:
        self._target = target
        self._on_queued = on_queued

    def forward(self, run: Run, now: datetime) -> Run:
        """Return a new run as it must be stored: as READY, if it is due now or in a moment and not blocked."""
        if not self._target.dispatches or run.wake_at is None or run.wake_at > now + READY_AHEAD or blocked_by(run):
            return run
        return replace(run, state=State.READY, wake_at=None, first_ready_at=max(now, run.wake_at))

    def hand_over(self, record: TaskRecord, now: datetime, *, timed: bool = False) -> bool:
        """Queue a new run if it is READY, and notify listeners. Return False if the dispatcher must be woken instead.

        `timed`: the run waits for an approval or an event, and that wait may end by time.
        """
        if record.run.state is State.READY:
            self.put(record)
        elif timed or not _can_wait(record.run, now):
            return False
        self._on_queued([record.task.id])
        return True

    def put(self, record: TaskRecord) -> None:
        """Put the run of a task into the queue, if it was stored as READY."""
        self._target.place(_ready_run(record))


def _can_wait(run: Run, now: datetime) -> bool:
    """Whether the dispatcher finds a new run, and the timer of its deadline, in time without being woken.

    A run that waits for others is handed on by their ends.
    """
    timers = [timer for timer in (run.wake_at, run.drop_at) if timer is not None]
    if any(timer <= now + WAKE_HORIZON for timer in timers):
        return False
    return run.state is State.WAITING or (run.state is State.SCHEDULED and bool(timers))


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

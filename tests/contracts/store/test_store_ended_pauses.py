"""A task that was cancelled while it was paused: there is nothing to resume."""

from __future__ import annotations

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store


@pytest.mark.parametrize("repeat", [None, "daily at 9:00"])
def test_a_cancelled_task_cannot_be_resumed_no_more_than_paused(store: Store, repeat: str | None) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    task_id = scheduler.schedule("Pill", when=None if repeat else "in 3 hours", repeat=repeat).record.task.id
    scheduler.reschedule(task_id, pause=True)
    revision = scheduler.cancel(task_id).record.task.revision
    with pytest.raises(Refused, match=r"has already ended \(cancelled"):
        scheduler.reschedule(task_id, pause=False)
    assert scheduler.get(task_id).record.task.revision == revision

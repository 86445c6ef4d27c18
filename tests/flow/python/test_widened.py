"""Forms of arguments that are read are accepted by type checkers as well: mypy checks this module with all tests."""

from __future__ import annotations

import pytest
from duetime import AsyncScheduler, Request, Scheduler, State, TaskFilter, testing
from duetime.server.python.call_threads import CallThreads


def test_each_form_that_is_read_has_a_type() -> None:
    with testing.open_scheduler() as scheduler:
        view = scheduler.schedule("Call John", when="in 2 hours", retry={"max_attempts": 3}, approval="Call him?")
        task_id = view.record.task.id
        assert view.record.task.retry.max_attempts == 3
        scheduler.submit(Request("Pay", when="in 2 hours", retry={"max_attempts": 2}, approval="Pay?"))
        scheduler.schedule("Chain", steps=[{"name": "a", "retry": {"max_attempts": 2}, "approval": "Go?"}])
        assert scheduler.reschedule(task_id, retry={"max_attempts": 4}).record.task.retry.max_attempts == 4
        other = scheduler.schedule("Walk", when="in 2 hours").record.task.id
        assert scheduler.reschedule(other, approval="Walk?").record.run.state is State.WAITING
        waits(scheduler, task_id)
        for states in ("failed", [State.FAILED], (State.FAILED, "expired"), State.FAILED):
            assert not scheduler.list(TaskFilter(states=states)).views


def waits(scheduler: Scheduler, task_id: str) -> None:
    assert scheduler.wait(task_id, timeout=0).record.run.state is State.WAITING
    assert scheduler.wait(task_id, "0.01 s").record.run.state is State.WAITING
    assert scheduler.service.wait(task_id, timeout="0.01 s").record.run.state is State.WAITING


@pytest.mark.anyio
async def test_an_asynchronous_wait_has_the_same_types() -> None:
    with testing.open_scheduler() as opened:
        task_id = opened.schedule("Call John", when="in 2 hours").record.task.id
        scheduler = AsyncScheduler(opened, CallThreads(1))
        assert (await scheduler.wait(task_id, timeout=0)).record.task.id == task_id
        assert (await scheduler.wait(task_id, "0.01 s")).record.task.id == task_id

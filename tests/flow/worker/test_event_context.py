"""A handler reads the event that let its run go."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime import testing
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Outcome
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import TENANT, Clock
from tests.flow.waiting import eventually
from tests.flow.worker import isolated_handlers

ALICE = Principal(TENANT, "alice")


@handler("ship")
def ship(ctx: Context) -> Outcome:
    """Ship what was paid for."""
    event = ctx.event
    return Done(result=[event.name, dict(event.data)] if event else None)


def test_a_handler_gets_the_event_that_its_run_waited_for(store: Store, clock: Clock) -> None:
    handlers = Handlers([ship])
    scheduler = Scheduler(store, Planner(handlers, "UTC"))
    queue = MemoryQueue(lambda: clock().timestamp() * 1000)
    worker = Worker(store, queue, handlers, WorkerOptions("w", threads=1))
    task = scheduler.schedule("Ship", action="ship", wait_for={"event": "order.paid"}, by=ALICE).record
    assert scheduler.signals.send("order.paid", {"order": 7}, by=ALICE).freed == 1
    worker.start()
    store.claims.make_ready(limit=1)
    queue.put([Entry(task.run.id, clock().timestamp() * 1000)])
    eventually(lambda: scheduler.get(task.task.id, by=ALICE).record.run.ended_at, "the run to end")
    worker.stop(timedelta(0))
    assert scheduler.get(task.task.id, by=ALICE).record.run.result == ["order.paid", {"order": 7}]


def test_a_handler_in_a_process_of_its_own_gets_the_answer_to_what_it_asked() -> None:
    with testing.open_scheduler(handlers=[isolated_handlers.asks_user], run=True) as scheduler:
        task_id = scheduler.schedule("Ask", when="now", action="asks-user").record.task.id
        eventually(lambda: scheduler.get(task_id).record.run.state is State.SUSPENDED, "it asks")
        scheduler.approve(task_id, reason="go on")
        assert scheduler.wait(task_id, timeout=60).record.run.summary == "True: go on"


@pytest.mark.parametrize("comes", [True, False])
def test_a_handler_waits_for_an_event_in_the_middle(store: Store, clock: Clock, comes: bool) -> None:
    scheduler = Scheduler(store, Planner(Handlers([isolated_handlers.order]), "UTC"))
    queue = MemoryQueue(lambda: clock().timestamp() * 1000)
    worker = Worker(store, queue, Handlers([isolated_handlers.order]), WorkerOptions("w", threads=1))
    task_id = scheduler.schedule("Order", action="order", by=ALICE).record.task.id
    worker.start()

    def run() -> Run:
        return scheduler.get(task_id, by=ALICE).record.run

    def go() -> None:
        [ready] = store.claims.make_ready(limit=1)
        queue.put([Entry(ready.run_id, clock().timestamp() * 1000)])

    go()
    eventually(lambda: run().state is State.SUSPENDED, "the run to wait")
    until = "the event 'order.paid' with «order = 7», until Tue 24 Nov 2026 13:00 (in 1 h), then it goes on"
    assert scheduler.get(task_id, by=ALICE).waiting_for == (until,)
    assert scheduler.explain(task_id, by=ALICE)[1] == (until,)
    assert scheduler.tasks.list(by=ALICE).views[0].waiting_for == (until,)
    if comes:
        assert scheduler.signals.send("order.paid", {"order": 7, "by": "card"}, by=ALICE).freed == 1
    else:
        clock.forward(hours=1)
        assert store.signals.end_late(limit=9) == [task_id]
    go()
    eventually(lambda: run().ended_at, "the run to end")
    worker.stop(timedelta(0))
    said = ("paid", {"order": 7, "by": "card"}) if comes else ("too late: True", None)
    assert (run().attempt, run().summary, run().result) == (2, *said)

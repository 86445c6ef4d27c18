"""A handler reads the event that let its run go."""

from __future__ import annotations

from datetime import timedelta

from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Outcome
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import TENANT, Clock
from tests.flow.waiting import eventually

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
    assert scheduler.send_event("order.paid", {"order": 7}, by=ALICE).freed == 1
    worker.start()
    store.claims.make_ready(limit=1)
    queue.put([Entry(task.run.id, clock().timestamp() * 1000)])
    eventually(lambda: scheduler.get(task.task.id, by=ALICE).record.run.ended_at, "the run to end")
    worker.stop(timedelta(0))
    assert scheduler.get(task.task.id, by=ALICE).record.run.result == ["order.paid", {"order": 7}]

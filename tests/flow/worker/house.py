"""Workers whose runs last until they are let go, or are asked to give way: for tests of preemption."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.outcomes import Done, Outcome, Yielded
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests.builders import TENANT, added

GRACE = timedelta(seconds=10)


class House:
    """Workers whose runs last until they are let go, or are asked to give way."""

    def __init__(self, store: Store, queue: DispatchQueue) -> None:
        self.store, self.queue = store, queue
        self.running: set[str] = set()
        self.turns = Counter[str]()
        self.seen: dict[str, object] = {}
        self.where: dict[str, str] = {}
        self.released: set[str] = set()
        self.deaf: set[str] = set()
        self.workers: dict[str, Worker] = {}

    def start(self, threads: int, name: str = "w") -> None:
        @handler("reminder")
        def remind(ctx: Context) -> Outcome:
            """Run until something ends it."""
            self.where[ctx.task_id] = name
            return self.act(ctx)

        worker = Worker(self.store, self.queue, Handlers([remind]), WorkerOptions(name, threads=threads))
        self.workers[name] = worker
        worker.start()

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.stop(GRACE)

    def act(self, ctx: Context) -> Outcome:
        pause = threading.Event()
        self.turns[ctx.task_id] += 1
        self.seen[ctx.task_id] = ctx.checkpoint_state
        self.running.add(ctx.task_id)
        try:
            while ctx.task_id not in self.released:
                if ctx.task_id not in self.deaf and ctx.should_yield():
                    return Yielded({"turn": self.turns[ctx.task_id]})
                pause.wait(0.002)
            return Done()
        finally:
            self.running.discard(ctx.task_id)

    def schedule(self, tier: Tier, count: int = 1, needs: Mapping[str, int] | None = None) -> list[TaskRecord]:
        records = [added(self.store, priority=tier, needs=dict(needs or {})) for _ in range(count)]
        self.dispatch()
        return records

    def one(self, tier: Tier, **needs: int) -> TaskRecord:
        """Schedule one run that needs units of pools."""
        return self.schedule(tier, 1, needs)[0]

    def dispatch(self) -> bool:
        Dispatcher(self.store, self.queue).step()
        return True

    def runs(self, record: TaskRecord) -> bool:
        return self.dispatch() and record.task.id in self.running

    def ended(self, record: TaskRecord) -> bool:
        self.dispatch()  # what gave way is stored after its units are free, and has to be put again
        return self.store.tasks.get(TENANT, record.task.id).run.state is State.SUCCEEDED

    def release(self, *records: TaskRecord) -> None:
        self.released.update(record.task.id for record in records)

    def reasons(self, record: TaskRecord) -> list[str | None]:
        return [attempt.reason for attempt in self.store.history.attempts(TENANT, record.task.id)]

    def preempted(self) -> int:
        """Count the runs that gave way, on all workers."""
        return sum(threads.preempted for threads in self.queue.stats().threads.values())

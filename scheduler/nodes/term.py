"""A term: one period as the runner, from the raised epoch to the last run that was handed back."""

from __future__ import annotations

import os
import socket
from dataclasses import replace
from datetime import timedelta

from duetime.scheduler.delivery.deliverer import Deliverer
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.dispatch.rebuild import adopt_running
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.nodes.engine import Engine
from duetime.scheduler.nodes.ipc import RunnerServer
from duetime.scheduler.nodes.options import RunnerOptions
from duetime.scheduler.nodes.pool_publisher import PoolPublisher
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.remote import KEY_IDS_QUESTION, Question, answer
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.runtime.notices import TermBegun
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.scheduler.worker.worker import WorkerOptions


class RunnerTerm:
    """Takes over, recovers the runs of the last runner, and runs due tasks from `start` until `end`.

    When another process has raised the epoch, `replaced` turns True, `notifier` is called, and nothing starts any more.
    """

    def __init__(
        self,
        store: Store,
        handlers: Handlers,
        options: RunnerOptions,
        *,
        placement: Placement,
        registry: PoolRegistry,
        deliverer: Deliverer | None,
        notifier: RunNotifier,
    ) -> None:
        self.replaced = False
        self._store = store
        self._handlers = handlers
        self._notifier = notifier
        self.queue = MemoryQueue(self._now_ms)
        self._publisher = PoolPublisher(registry, self.queue, now=store.now)
        self._endpoint = RunnerServer(self.wake, self.answer, file=store.file())
        try:
            epoch = self._take_over()  # first: what the runs of the last runner used counts for the pools
            self._publisher.fill()
            adopt_running(store, self.queue, placement)  # those that workers elsewhere hold outlive a runner
            name = f"{socket.gethostname()[:60]}-{os.getpid()}-{epoch}"
            worker = WorkerOptions(name, options.threads, options.lease, options.headroom, options.retention)
            self.engine = Engine(
                store,
                self.queue,
                handlers,
                replace(worker, decisions=options.decisions, allowance=options.allowance),
                placement=placement,
                epoch=epoch,
                deliverer=deliverer,
                notifier=replace(notifier, on_replaced=self._on_replaced),
            )
        except BaseException:
            self.discard()
            raise

    def start(self) -> None:
        """Start to run what is due."""
        self.engine.start()
        self._publisher.loop.start()
        self._endpoint.start()

    def discard(self) -> None:
        """End a term that was not started."""
        self._endpoint.close()
        self._publisher.close()

    def answer(self, question: Question) -> Json:
        """Answer a question about the queue, and about what this process can run."""
        if question == KEY_IDS_QUESTION:
            return {"key_ids": [*self._store.secrets.key_ids]}
        return answer(self.queue, question, self._handlers)

    def wake(self) -> None:
        """Look at once for runs that are due or cancelled, and for deliveries. May be called from any thread."""
        self.engine.wake()
        self._publisher.loop.wake()

    def end(self, grace: timedelta) -> None:
        """Stop all loops; running work finishes within `grace` or is handed back."""
        self._endpoint.close()
        self._publisher.loop.stop(0)
        self.engine.end(grace)
        self._publisher.close()

    def _now_ms(self) -> float:
        """Return the time of the queue."""
        return self._store.now().timestamp() * 1000

    def _take_over(self) -> int:
        store, endpoint = self._store, self._endpoint
        epoch = store.runners.take_over(pid=os.getpid(), endpoint=endpoint.endpoint, token=endpoint.token)
        left = store.claims.recover(
            epoch=epoch, conclude=lambda claim, settlement: with_consequences(claim, settlement, now=store.now())
        )
        self._notifier.noticed(TermBegun(epoch, left))
        return epoch

    def _on_replaced(self) -> None:
        self.replaced = True
        self._notifier.on_replaced()

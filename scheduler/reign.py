"""A reign: one time of being the runner, from the raised epoch to the last run that was handed back."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from duetime.scheduler.delivery import Deliverer
from duetime.scheduler.dispatch import LAST_CHANCE, Dispatcher
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.maintenance import Maintenance
from duetime.scheduler.process import STEP_PATIENCE, Process
from duetime.scheduler.queue import MemoryQueue
from duetime.scheduler.settlement import concluded
from duetime.scheduler.store import Settlement, Store
from duetime.scheduler.wake import WakeServer
from duetime.scheduler.worker import Worker, WorkerOptions

LONGEST_SLEEP = 10.0
"""Seconds after which deliveries are looked for in any case, should the clock of the wall have jumped."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RunnerOptions:
    """`lock` is the file that makes the runner one, beside the database; it is made if need be, and stays.

    `threads` is how many runs may be under way at once, `lease` how long a claim lasts without a sign of life, `grace`
    how long running work may take to finish when the runner stops. `pools` are the units that runs at once may use.
    """

    lock: Path
    threads: int = 16
    lease: timedelta = timedelta(seconds=30)
    grace: timedelta = timedelta(seconds=5)
    pools: Mapping[str, int] = field(default_factory=dict)


class Reign:
    """Takes over, recovers what the last runner left running, and runs what is due until `end`.

    `replaced` turns True, and `on_replaced` is called, when another process has raised the epoch: nothing starts then.
    """

    def __init__(
        self,
        store: Store,
        handlers: Handlers,
        options: RunnerOptions,
        *,
        deliverer: Deliverer | None,
        on_change: Callable[[Sequence[str]], None],
        on_replaced: Callable[[], None],
    ) -> None:
        self.replaced = False
        self._store = store
        self._on_change = on_change
        self._on_replaced = on_replaced
        queue = self._queue(options)
        self._endpoint = WakeServer(self.wake)
        try:
            epoch = self._take_over()
            dispatcher = Dispatcher(store, queue, epoch=epoch, on_change=self._changed, replaced=self._hear_of_the_next)
            dispatcher.step()  # what was interrupted goes first: nothing is left half done for longer than need be
        except BaseException:
            self._endpoint.close()
            raise
        self._worker = self._make_worker(queue, handlers, options, epoch)
        self._dispatcher = dispatcher.process
        self._maintenance = Maintenance(
            store, queue, held=self._worker.held, epoch=epoch, replaced=self._hear_of_the_next
        ).process
        self._deliverer = deliverer
        self._delivery = Process("delivery", self._deliver)
        self._start()

    def wake(self) -> None:
        """Look at once for what is due, cancelled or to be delivered. May be called from any thread."""
        self._dispatcher.wake()
        self._worker.check()
        self._delivery.wake()

    def end(self, grace: timedelta) -> None:
        """Stop everything; running work finishes within `grace` or is handed back."""
        self._endpoint.close()
        for process in self._processes:
            process.stop(0)
        self._worker.stop(grace)
        for process in self._processes:
            process.stop(STEP_PATIENCE)

    @property
    def _processes(self) -> tuple[Process, ...]:
        return (self._dispatcher, self._maintenance, self._delivery)

    def _take_over(self) -> int:
        store, endpoint = self._store, self._endpoint
        epoch = store.runners.take_over(pid=os.getpid(), endpoint=endpoint.endpoint, token=endpoint.token)
        left = store.claims.recover(
            epoch=epoch, conclude=lambda claim, settlement: concluded(claim, settlement, now=store.now())
        )
        log.info("this process is the runner now (epoch %d); %d runs were left running by the last one", epoch, left)
        return epoch

    def _queue(self, options: RunnerOptions) -> MemoryQueue:
        queue = MemoryQueue(lambda: self._store.now().timestamp() * 1000)
        for name, units in {**options.pools, LAST_CHANCE: 1}.items():
            queue.set_pool(name, units)
        return queue

    def _make_worker(self, queue: MemoryQueue, handlers: Handlers, options: RunnerOptions, epoch: int) -> Worker:
        name = f"{socket.gethostname()[:60]}-{os.getpid()}-{epoch}"
        return Worker(
            self._store,
            queue,
            handlers,
            WorkerOptions(name, options.threads, options.lease),
            epoch=epoch,
            on_change=self._changed,
            on_settled=self._settled,
            on_replaced=self._hear_of_the_next,
        )

    def _start(self) -> None:
        self._worker.start()
        for process in self._processes:
            process.start()
        self._endpoint.start()

    def _deliver(self) -> float | None:
        """Send what is due, and return the seconds until more is; what settles meanwhile wakes this up."""
        if self._deliverer is None:
            return None
        wake_at = self._deliverer.next_wake()
        sleep = (wake_at - self._store.now()).total_seconds() if wake_at else LONGEST_SLEEP
        if sleep > 0:
            return min(sleep, LONGEST_SLEEP)
        self._deliverer.tick(self._store.now())
        return 0.0

    def _settled(self, settlements: Sequence[Settlement]) -> None:
        """Wake whom an ending concerns: what follows may be due before they would look by themselves."""
        if any(settlement.wake_at or settlement.next_run for settlement in settlements):
            self._dispatcher.wake()
        if any(settlement.deliveries for settlement in settlements):
            self._delivery.wake()

    def _changed(self, task_ids: Sequence[str]) -> None:
        try:
            self._on_change(task_ids)
        except Exception:
            log.exception("a listener to changes failed")

    def _hear_of_the_next(self) -> None:
        self.replaced = True
        self._on_replaced()

"""The engine of one process that runs tasks: a dispatcher, a worker, maintenance and delivery over one queue."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from duetime.scheduler.delivery import Channels
from duetime.scheduler.delivery.deliverer import Deliverer
from duetime.scheduler.dispatch.decision_log import DecisionLog
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.maintenance import NO_NEIGHBOURS, MaintainedWorker, Maintenance
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.retention import RetentionLoop
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.nodes.blocked_checks import BlockedChecks
from duetime.scheduler.nodes.heartbeat import Heartbeat
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.run_records import ReadyRun, Settlement
from duetime.scheduler.runtime.loop import STEP_TIMEOUT_S, Loop
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.store.audit.seal import MAX_ROWS_SEALED
from duetime.scheduler.worker.worker import Worker, WorkerOptions

MAX_DELIVERY_SLEEP_S = 10.0
"""Seconds after which deliveries are checked in any case, should the wall clock have jumped."""

INDEX_INTERVAL_S = 5.0
"""Seconds between two looks for events that are not in the index of texts; a search reads these until then."""

INDEX_PAUSE_RATIO = 9
"""While much is left to index, it takes one part in so many and one of the time, for writers wait for it."""


SEAL_INTERVAL_S = 3.0
"""Seconds between two looks for rows that are in no audit chain yet; they should be in one within 5 s."""

SEAL_PAUSE_RATIO = 9
"""While many rows are left to seal, it takes one part in so many and one of the time."""


class DispatchEngine:
    """An engine without a worker: it makes due runs ready for other processes, ends attempts of dead ones, and seals.

    `worker` is that of the same process, if it has one.
    """

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        *,
        placement: Placement = Placement(),  # noqa: B008 - a frozen value
        epoch: int | None = None,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
        worker: MaintainedWorker = NO_NEIGHBOURS,
    ) -> None:
        self._store, self._notifier = store, notifier
        self._dispatcher = Dispatcher(store, queue, placement=placement, epoch=epoch, notifier=notifier)
        self.maintenance = Maintenance(
            store,
            queue,
            worker=worker,
            dispatcher=self._dispatcher,
            placement=placement,
            epoch=epoch,
            notifier=notifier,
        ).loop
        self._loops = [self._dispatcher.loop, self.maintenance, Loop("audit", self._seal)]
        self._stop_listening: Callable[[], None] = lambda: None

    def start(self) -> None:
        self._stop_listening = self._store.commits.listen(
            self._freed, rescored=self._dispatcher.rescore, ended=self._notifier.ended
        )
        for loop in self._loops:
            loop.start()

    def wake(self) -> None:
        """Look at once for due runs. May be called from any thread."""
        self._dispatcher.wake()

    def place(self, run: ReadyRun) -> None:
        """Put a run that was stored as READY into the queue. May be called from any thread."""
        self._dispatcher.place(run)

    def check(self) -> None:
        """Do nothing: no run of this process could be cancelled."""

    def hurry(self) -> None:
        """Do nothing: no run of this process has to end."""

    def end(self, grace: timedelta) -> None:  # noqa: ARG002 - the engine with a worker uses it
        for loop in self._loops:
            loop.stop(0)
        for loop in self._loops:
            loop.stop(STEP_TIMEOUT_S)
        self._stop_listening()  # runs that are freed from now on are the concern of another process

    def _freed(self, task_ids: Sequence[str]) -> None:
        """Notify of tasks whose runs waited for others, and look for due runs at once: theirs may be due."""
        self._dispatcher.freed()
        self._notifier.changed(task_ids)

    def _seal(self) -> float:
        """Add the next rows to the audit chains, and return the seconds until the next step."""
        began = time.monotonic()
        if self._store.audit_chain.seal() >= MAX_ROWS_SEALED:
            return SEAL_PAUSE_RATIO * (time.monotonic() - began)
        return SEAL_INTERVAL_S


class Engine(DispatchEngine):
    """Runs due tasks, as the runner of `epoch` or, without one, as one process of many.

    The constructor starts no thread; it returns after everything already due has been queued. `notifier` is called with
    moved and settled runs, on any thread, and when another process has raised the epoch.
    """

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        handlers: Handlers,
        options: WorkerOptions,
        *,
        placement: Placement = Placement(),  # noqa: B008 - a frozen value
        epoch: int | None = None,
        deliverer: Deliverer | None = None,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
    ) -> None:
        self._deliverer = deliverer
        channels = deliverer.channels if deliverer else Channels()
        self._decisions = DecisionLog(store, placement, options.name, options.decisions)
        self.worker = Worker(
            store,
            queue,
            handlers,
            replace(options, recorder=self._decisions, reached=channels.reached),
            epoch=epoch,
            notifier=replace(notifier, on_settled=self._settled),
        )
        stopping = replace(notifier, on_stop_wanted=self.check)
        super().__init__(store, queue, placement=placement, epoch=epoch, notifier=stopping, worker=self.worker)
        self._dispatcher.step()  # interrupted runs first, so that none stays half done
        self._delivery = Loop("delivery", self._deliver)
        self._loops += [self._delivery, *self._background(handlers)]
        self._retention = self._make_retention(options, notifier)
        if self._retention is not None:
            self._loops.append(self._retention.loop)
        self._heartbeat = self._make_heartbeat(options.name, handlers) if epoch is None else None
        if self._heartbeat is not None:  # the only runner needs no row of its own
            self._loops.append(self._heartbeat.loop)

    def start(self) -> None:
        self.worker.start()
        super().start()

    def wake(self) -> None:
        """Look at once for runs that are due or cancelled, and for deliveries. May be called from any thread."""
        super().wake()
        self.worker.check()
        self._delivery.wake()

    def check(self) -> None:
        """Look soon for requested cancels of running runs."""
        self.worker.check()

    def end(self, grace: timedelta) -> None:
        """Stop all loops; running work finishes within `grace` or is handed back."""
        ends = time.monotonic() + grace.total_seconds()
        for loop in self._loops:
            loop.stop(0)
        if self._heartbeat is not None:
            self._heartbeat.draining()
        self.worker.stop(grace)
        with suppress(DuetimeError):  # without a database, their leases end
            self.worker.give_back()
        for loop in self._loops:
            loop.stop(STEP_TIMEOUT_S)
        self._finish_deliveries(ends - time.monotonic())
        self._stop_listening()
        self._decisions.step()
        if self._retention is not None:
            self._retention.close()
        if self._heartbeat is not None:
            self._heartbeat.gone()

    def hurry(self) -> None:
        """Shorten the grace period of `end`, also while it waits."""
        self.worker.hurry()
        if self._deliverer is not None:
            self._deliverer.hurry()

    def _background(self, handlers: Handlers) -> list[Loop]:
        """Return the loops for which nothing waits."""
        blocked = BlockedChecks(self._store, handlers, self._notifier.changed)
        loops = [self._decisions.loop, *([blocked.loop] if blocked.is_needed else [])]
        return [*loops, Loop("search index", self._index)] if self._store.search.needs_advance else loops

    def _make_retention(self, options: WorkerOptions, notifier: RunNotifier) -> RetentionLoop | None:
        if not options.retention.rules:
            return None
        return RetentionLoop(self._store, options.retention, notifier)

    def _make_heartbeat(self, name: str, handlers: Handlers) -> Heartbeat:
        return Heartbeat(
            self._store,
            name,
            threads=lambda: self.worker.threads,
            running=lambda: self.worker.running,
            lost_threads=lambda: self.worker.lost_threads,
            actions=handlers,
            follow=self.worker.drain.follow,
        )

    def _deliver(self) -> float | None:
        """Send due deliveries, and return the seconds until the next one; a settlement wakes this loop."""
        if self._deliverer is None:
            return None
        wake_at = self._deliverer.next_wake()
        sleep = (wake_at - self._store.now()).total_seconds() if wake_at else MAX_DELIVERY_SLEEP_S
        if sleep > 0:
            return min(sleep, MAX_DELIVERY_SLEEP_S)
        self._deliverer.tick(self._store.now())
        return 0.0

    def _finish_deliveries(self, seconds_left: float) -> None:
        """Settle the deliveries that are under way; without that the next process sends them again."""
        if self._deliverer is not None and self._delivery.stop(0):
            with suppress(DuetimeError):  # without a database they are sent again
                self._deliverer.finish(self._store.now(), timedelta(seconds=max(0.0, seconds_left)))

    def _index(self) -> float:
        """Add the next events to the index of texts, and return the seconds until the next step."""
        began = time.monotonic()
        if self._store.search.advance():
            return INDEX_PAUSE_RATIO * (time.monotonic() - began)
        return INDEX_INTERVAL_S

    def _settled(self, settlements: Sequence[Settlement]) -> None:
        """Wake the loops that an end concerns: its consequences may be due before their next look."""
        if any(settlement.wake_at or settlement.next_run for settlement in settlements):
            self._dispatcher.wake()
        if any(settlement.deliveries for settlement in settlements):
            self._delivery.wake()

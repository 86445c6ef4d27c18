"""The worker of one process: Dramatiq's threads take runs from the dispatch queue, run their claims and settle them."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial

import dramatiq
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.retention import KEEP_ALL, RetentionPolicy
from duetime.scheduler.queue import DispatchQueue, Grant, QueueLost, QueueUnavailable
from duetime.scheduler.rules.headroom import DEFAULT_HEADROOM, HeadroomRule
from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.run_records import StartTerms
from duetime.scheduler.runtime import failpoints
from duetime.scheduler.runtime.attempt_context import keep_logs
from duetime.scheduler.runtime.event_loop import EventLoop
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns
from duetime.scheduler.worker.broker import RUN_ACTOR, RUN_QUEUE, DispatchBroker
from duetime.scheduler.worker.claimer import Claimer
from duetime.scheduler.worker.completer import DRAW_FRACTION, BatchCompleter, CompletedRun
from duetime.scheduler.worker.drain import INTERRUPT_GRACE_S, Drain
from duetime.scheduler.worker.executor import GIVEN_BACK_LATE, GIVEN_BACK_UNRESERVED, Executor, ReachedChannels
from duetime.scheduler.worker.logs.log_writer import RunLogWriter
from duetime.scheduler.worker.machine_load import all_of_them
from duetime.scheduler.worker.middleware import Hosting, ThreadReplacement
from duetime.scheduler.worker.threads.gate import ThreadGate
from duetime.scheduler.worker.threads.lost_threads import LostThreads
from duetime.scheduler.worker.threads.preemption import Preemption
from duetime.scheduler.worker.threads.records import NO_RECORDS, TakeRecorder
from duetime.scheduler.worker.threads.takes import TakeOptions
from duetime.scheduler.worker.usage import Durations
from duetime.scheduler.worker.watchdog import Watchdog

IDLE_POLL_MS = 5_000
"""Milliseconds after which Dramatiq's idle threads check for a stop; no caller waits for them then."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """`threads` is the number of runs at once; `lease` how long a claim is valid without a renewal.

    `headroom` is how many of the threads are reserved for urgent runs, `retention` what the process deletes when it is
    old. `grace` is how long runs may take to end when the worker hands them back and lives on. `decisions` is how many
    takes the `recorder` records a minute; `reached` returns those of a task's channels that there are. `allowance`
    returns how many of the threads to use now.

    A `hosted` worker has no threads of its own: `start` gives its broker to Dramatiq's command line, which calls
    `hosted` when it stops.
    """

    name: str
    threads: int = 16
    lease: timedelta = timedelta(seconds=30)
    headroom: HeadroomRule = DEFAULT_HEADROOM
    retention: RetentionPolicy = KEEP_ALL
    grace: timedelta = timedelta(seconds=5)
    decisions: int = 0
    recorder: TakeRecorder = NO_RECORDS
    reached: ReachedChannels = tuple
    allowance: Callable[[int], int] = all_of_them
    hosted: Callable[[], None] | None = None


MAX_UNSTORED_PER_THREAD = 64
"""Pending results per thread; above that nothing new starts."""


class Worker:
    """Runs the runs that the queue grants.

    `notifier` is called with started and settled runs after each commit, and when another runner has taken over. Its
    broker calls `claim`, `line_up` and `let_go`.
    """

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        handlers: Handlers,
        options: WorkerOptions,
        *,
        epoch: int | None = None,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._queue = store, queue
        self._options = options
        self._notifier = notifier
        self._clock = monotonic
        self._durations = Durations(store.estimates.add)
        self._logs = RunLogWriter(store, lambda: [held.log for held in self._active_runs.all()])
        self._active_runs = ActiveRuns(notifier, self._logs.wake)
        self._loop = EventLoop()
        self._thread_replacement = ThreadReplacement()
        self._lost = self._make_lost_threads()
        self._watchdog = self._make_watchdog()
        self._executor = Executor(store, handlers, self._loop, options.reached, started=self._watchdog.started)
        self._claimer = self._make_claimer(handlers, epoch)
        self.give_back = self._claimer.give_back
        self.threads = 0 if options.hosted else options.threads
        self._preemption = Preemption(queue, self._active_runs, worker=options.name, actions=handlers, clock=monotonic)
        self._broker = self._make_broker(handlers)
        name, grace, interrupt = options.name, options.grace, self._watchdog.interrupt
        self.drain = Drain(store, self._broker, self._active_runs, worker=name, grace=grace, interrupt=interrupt)
        self._gate = ThreadGate(self._broker.idle, self._broker.headroom)
        limit = MAX_UNSTORED_PER_THREAD * options.threads
        self._completer = BatchCompleter(
            store, on_settled=self._finish, starting=lambda: self._broker.rushed, limit=limit, notifier=notifier
        )
        self._dramatiq = self._make_dramatiq_worker() if options.hosted is None else None

    @property
    def running(self) -> int:
        """The number of claimed runs."""
        return len(self._active_runs)

    @property
    def lost_threads(self) -> int:
        """The number of threads whose handlers did not stop at their time limit."""
        return len(self._lost)

    def held(self) -> set[str]:
        """Return the claimed runs, each without a gap from its claim until it is settled."""
        with self._broker.claiming:
            return {held.run_id for held in self._active_runs.all()}

    def start(self) -> None:
        self._completer.start()
        self._loop.start()
        for each in (self._watchdog, self._preemption, self._logs):
            each.loop.start()
        keep_logs()
        if self._dramatiq is None:
            dramatiq.set_broker(self._broker)
            return
        self._broker.emit_after("process_boot")  # as Dramatiq's command line does; middleware relies on it
        self._dramatiq.start()

    def learn(self) -> None:
        """Store the pending durations of successful attempts."""
        self._durations.flush()

    def check(self) -> None:
        """Look soon for requested cancels of running attempts."""
        self._watchdog.check()

    def stop(self, grace: timedelta) -> bool:
        """Take no more runs, let running ones finish within `grace`, and hand the rest back for other workers.

        Returns within `grace` and a few seconds, much sooner after `hurry`. It returns False when the database took no
        result, so that runs stay `running` until the next runner recovers them.
        """
        self.drain.end(grace, partial(self._hand_in, wait=False))  # without a database, room may never come
        stored = self._completer.close(timeout=2 * INTERRUPT_GRACE_S)
        if stored:
            self.learn()
        for each in (self._preemption.loop, self._logs.loop, self._watchdog.loop):
            each.stop(INTERRUPT_GRACE_S)
        if self._dramatiq is not None:
            self._dramatiq.stop(timeout=0)  # those that run something end by themselves
        self._loop.stop(INTERRUPT_GRACE_S)
        return stored

    def hurry(self) -> None:
        """Shorten the grace period of `stop`, also while it waits. May be called from any thread."""
        self._active_runs.hurry()

    def _make_lost_threads(self) -> LostThreads:
        return LostThreads(
            self._loop,
            limit=lambda: self.threads,
            end=lambda held: self._completer.hand_in(held, self._executor.unstopped(held), wait=False),
            replace=self._replace,
            notifier=self._notifier,
        )

    def _make_watchdog(self) -> Watchdog:
        return Watchdog(
            self._store,
            self._queue,
            self._active_runs,
            worker=self._options.name,
            lease=self._options.lease,
            abandon=self._lost.abandon,
            clock=self._clock,
        )

    def _make_claimer(self, handlers: Handlers, epoch: int | None) -> Claimer:
        return Claimer(
            self._store,
            self._queue,
            self._active_runs,
            StartTerms(self._options.name, epoch, self._options.lease, actions=handlers),
            unproven=lambda held: self._hand_in(held, GIVEN_BACK_UNRESERVED),
            notifier=replace(self._notifier, on_replaced=self._drain),
        )

    def _make_dramatiq_worker(self) -> dramatiq.Worker:
        return dramatiq.Worker(self._broker, worker_threads=self.threads, worker_timeout=IDLE_POLL_MS)

    def _host(self, threads: int) -> None:
        self.threads = threads
        self._broker.idle.add(threads)

    def _make_broker(self, handlers: Handlers) -> DispatchBroker:
        options, lease_ms = self._options, self._options.lease.total_seconds() * 1000
        broker = DispatchBroker(
            self._queue,
            self,
            TakeOptions(
                options.name, self.threads, lease_ms, handlers, options.headroom, options.allowance, options.recorder
            ),
            preemption=self._preemption,
            middleware=[self._thread_replacement, *([Hosting(self._host, options.hosted)] if options.hosted else [])],
            clock=lambda: self._store.now().timestamp() * 1000,
        )
        dramatiq.actor(broker=broker, actor_name=RUN_ACTOR, queue_name=RUN_QUEUE)(self._run)
        return broker

    def _drain(self) -> None:
        self._broker.drain()
        self._notifier.on_replaced()

    def claim(self, grants: Sequence[Grant], taken_at: float) -> Sequence[str]:
        """Start granted runs in the database, and return the ids of those to run."""
        return self._claimer.claim(grants, taken_at)

    def let_go(self) -> None:
        """Hand back runs that were claimed ahead and have not begun, for an idle worker."""
        for held in self._active_runs.all():
            if held.begin():
                self._hand_in(held, GIVEN_BACK_LATE)
        self._gate.clear()

    def _run(self, run_id: str) -> None:
        """Run one claim, and those in line: the generic actor."""
        self._gate.run(run_id, self._run_here, self._fail)

    def line_up(self, run_ids: Sequence[str]) -> Sequence[str]:
        """Return the runs to call a thread for; the others wait in line."""
        claimed = [self._active_runs.get(run_id) for run_id in run_ids]
        return self._gate.line_up(held for held in claimed if held is not None)

    def _run_here(self, held: ActiveRun) -> bool:
        """Run a claim on this thread; return whether the thread may run others."""
        held.thread = threading.current_thread()
        held.yielding |= self._broker.draining
        self._preemption.began(held)
        ending = self._preemption.ended(held, self._executor.run(held))
        failpoints.hit(failpoints.Step.HANDLED)
        if held.hand_over():
            self._broker.idle.took(held.usage.took, alone=not held.claim.reserved)
            self._completer.hand_in(held, ending)
            return True
        if self._lost.returned(held, ending):
            self._broker.idle.count_out(1)
            self._thread_replacement.end_this()
            return False
        return True

    def _fail(self, held: ActiveRun, error: BaseException) -> None:
        self._hand_in(held, self._executor.failed(held, error), wait=False)

    def _replace(self, lost_thread: threading.Thread) -> None:
        self._gate.replaced(lost_thread)
        self._thread_replacement.replace(lost_thread)
        self._broker.idle.give(1)

    def _hand_in(self, held: ActiveRun, ending: AttemptResult, *, wait: bool = True) -> None:
        if held.hand_over():
            self._completer.hand_in(held, ending, wait=wait)

    def _finish(self, ended: Sequence[CompletedRun]) -> None:
        """Remove stored runs from the queue; after that, a run that continues may be taken and claimed again."""
        self._active_runs.remove([each.held for each in ended])
        self._release(ended)
        self._logs.ended([each.held.log for each in ended])
        failpoints.hit(failpoints.Step.FINISHED)
        self._notifier.settled([each.settlement for each in ended if each.stored])
        self._notifier.changed([each.held.claim.task.id for each in ended])

    def _release(self, ended: Sequence[CompletedRun]) -> None:
        ends = []
        for held, settlement in [(each.held, each.settlement) for each in ended]:
            ends.append(held.usage.finish(held.run_id, held.claim.token, settlement.outcome))
            self._durations.add(held.claim.run.tenant, held.claim.task.action, held.usage, settlement)
        try:
            self._queue.finish(self._options.name, ends, jitter=DRAW_FRACTION())
        except (QueueLost, QueueUnavailable) as error:
            log.warning("cannot release %d leases in the queue, they expire on their own: %s", len(ends), error)

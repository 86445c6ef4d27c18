"""A Dramatiq broker over a `DispatchQueue`: it fetches runs for idle threads only, and keeps no delayed messages.

A message carries the id of a run only; the claim reads everything else from the database.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import dramatiq
from dramatiq import Message, MessageProxy
from dramatiq.middleware import Middleware
from duetime.scheduler.ids import new_id
from duetime.scheduler.queue import DispatchQueue, Entry, Finish, Grant, QueueChange, Take, ThreadUse
from duetime.scheduler.rules.headroom import Headroom, are_reserved, least_urgent
from duetime.scheduler.rules.shares import TIER_COUNT
from duetime.scheduler.runtime import failpoints
from duetime.scheduler.worker.capacity import ThreadCapacity
from duetime.scheduler.worker.threads.preemption import PREEMPTION_INTERVAL_S, Preemption
from duetime.scheduler.worker.threads.takes import TakenRuns, TakeOptions

RUN_QUEUE = "runs"
RUN_ACTOR = "run"
CLAIM_RETRY_DELAY_MS = 500.0
"""Milliseconds until runs that could not be claimed may be taken again."""

MAX_TAKE_WAIT_S = 2.0
"""Seconds of one wait on an empty queue; a put or a drain ends it earlier."""

CLAIM_TIMEOUT_S = 2.0
"""Seconds that draining waits for a claim in progress: the usual busy timeout of a database."""

MAX_THREAD_RETURN_S = 0.5
"""Seconds after which runs that were claimed ahead of busy threads are handed back, since other workers may be idle."""

DRAINING_PAUSE_S = 0.02
"""Seconds between Dramatiq's polls after draining: it polls until all its threads have ended."""

LOAD_CHECK_INTERVAL_S = 0.5
"""Seconds after which a machine under load is measured again, unless a run ends before."""

log = logging.getLogger(__name__)


class KeptIdle(NamedTuple):
    """The threads that are left idle for urgent runs, and the take that found nothing else for them."""

    take: Take
    threads: int


class DispatchBroker(dramatiq.Broker):
    """Takes as many runs as threads are idle, and claims all of them before a thread gets one.

    While runs are brief it claims a few more per thread. A thread that holds the lock `claiming` sees every claim
    either in the database and in the worker, or in neither. `preemption` frees threads for urgent runs; `clock` is in
    milliseconds.
    """

    def __init__(
        self,
        queue: DispatchQueue,
        runs: TakenRuns,
        options: TakeOptions,
        *,
        preemption: Preemption | None = None,
        middleware: list[Middleware],
        clock: Callable[[], float],
    ) -> None:
        super().__init__(middleware=middleware)
        self.queue, self.runs = queue, runs
        self.idle = ThreadCapacity(options.threads)
        self.claiming = threading.RLock()
        self.draining = False
        self.rushed = False  # whether more brief runs than were taken, which hold nothing, wait to be started now
        self._awaited: QueueChange | None = None  # by the next take, after one that found nothing
        self._kept_idle: KeptIdle | None = None
        self._room_made_at = -math.inf  # in monotonic seconds
        self._open = threading.Event()
        self._open.set()
        self._taking = threading.RLock()  # from a take, also while it waits, until its runs are claimed
        self._options = options
        self._actions = None if options.actions is None else frozenset(options.actions)
        self._preemption = preemption
        self._clock = clock

    def declare_queue(self, queue_name: str) -> None:
        """Declare a queue, without a delay queue, so that no worker ever keeps delayed messages in memory."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = True
            self.emit_after("declare_queue", queue_name)

    def enqueue(self, message: Message[None], *, delay: int | None = None) -> Message[None]:
        """Put the run of a message into the dispatch queue; `delay` is in milliseconds."""
        self.emit_before("enqueue", message, delay)
        now = self._clock()
        self.queue.put([Entry(message.message_id, key=now, delay=delay or 0)])
        self.emit_after("enqueue", message, delay)
        return message

    def consume(self, queue_name: str, prefetch: int = 1, timeout: int = 30_000) -> RunConsumer:  # noqa: ARG002 - Dramatiq's signature; nothing is prefetched
        """Iterate over the runs to start now; `timeout`, in milliseconds, bounds each wait for an idle thread."""
        return RunConsumer(self, min(timeout / 1000, MAX_THREAD_RETURN_S))

    @property
    def closed(self) -> bool:
        """Whether it takes no runs, now or ever."""
        return self.draining or not self._open.is_set()

    def drain(self) -> None:
        """Take no more runs; return when a claim in progress has ended, or after 2 seconds."""
        self.draining = True
        self.pause()
        self._open.set()  # nobody waits for a resume any more

    def pause(self) -> None:
        """Take no runs until `resume`; return as `drain` does."""
        self._open.clear()
        self.idle.wake()
        self.queue.wake()
        if self._taking.acquire(timeout=CLAIM_TIMEOUT_S):
            self._taking.release()

    def resume(self) -> None:
        """Take runs again after a pause."""
        self._open.set()

    def take(self, timeout: float) -> list[str]:
        """Return claimed runs, as many as threads are idle, or some more; none after `timeout` seconds."""
        most = timeout if self.idle.is_overcommitted else min(timeout, PREEMPTION_INTERVAL_S)
        idle = 0 if self.closed else self.idle.take_all(most)
        if not idle:
            self._wait_without_thread(timeout)
            return []
        wanted = self._wanted(idle)
        kept, self._kept_idle = self._kept_idle, None
        if wanted <= 0:
            self._wait_under_load(idle, timeout)
        elif kept is not None and wanted <= kept.threads:
            self.idle.give(idle)
            self._wait_for_change(kept.take, wanted, idle)
        else:
            return self._take(wanted, idle)
        return []

    def _wait_under_load(self, idle: int, timeout: float) -> None:
        """Wait for another thread while the load of this machine lets none of the `idle` ones start a run."""
        self.idle.give(idle)
        self._make_room()
        self.idle.wait_for_more(idle, min(timeout, LOAD_CHECK_INTERVAL_S))

    def _take(self, wanted: int, idle: int) -> list[str]:
        """Take and claim up to `wanted` runs for `idle` threads; wait for a change where there is none."""
        started: list[str] = []
        try:
            with self._taking:
                asked_at = time.monotonic()
                taken = self._take_from_queue(wanted, self._threads(idle))
                started = self._claim(taken, asked_at) if taken else []
        finally:
            self.idle.give_back(idle - len(started))
        if taken and not taken.grants:
            if not are_reserved(self.headroom(), wanted):
                self.idle.forget()
            self._wait_for_change(taken, wanted, idle)
        elif taken and wanted > len(taken.grants) and are_reserved(self.headroom(), wanted - len(taken.grants)):
            self._kept_idle = KeptIdle(taken, wanted - len(taken.grants))
        return started

    def headroom(self) -> Headroom:
        """Return how many idle threads each tier leaves to more urgent runs, of the threads to use now."""
        return self._options.headroom.of(self._allowed())

    def _allowed(self) -> int:
        """Return how many threads to use on this machine now."""
        return min(self.idle.total, self._options.allowance(self.idle.total))

    def _threads(self, idle: int) -> ThreadUse:
        """Return the thread report for the queue while `idle` places are reserved for a take."""
        preempted = self._preemption.count if self._preemption else 0
        total, busy, allowed = self.idle.total, self.idle.busy(idle), self._allowed()
        withheld = total - max(busy, allowed)
        return ThreadUse(total, busy, self._options.headroom.of(allowed), preempted, self.runs.lost_threads, withheld)

    def _wait_for_change(self, taken: Take, wanted: int, idle: int) -> None:
        """Wait for a change of the queue, for urgent runs only if just the headroom is idle, or for another thread."""
        timeout, tier = MAX_TAKE_WAIT_S if taken.hint is None else min(taken.hint, MAX_TAKE_WAIT_S), TIER_COUNT
        urgent_only = are_reserved(self.headroom(), wanted)
        if not urgent_only and taken.hint is None:
            self._awaited = QueueChange(taken.generation, timeout)
            return
        if urgent_only:
            tier, timeout = least_urgent(self.headroom(), wanted), min(timeout, PREEMPTION_INTERVAL_S)
            self._make_room()
            self.idle.call_when_more(idle, self.queue.wake)
        self.queue.wait(taken.generation, timeout, tier=tier, actions=self._actions or ())

    def _make_room(self) -> None:
        """Report the threads, and look for urgent runs if one more end lets a run start on this machine."""
        now = time.monotonic()
        if self._preemption is not None and now - self._room_made_at >= PREEMPTION_INTERVAL_S:
            self._room_made_at = now
            threads = self._threads(0)
            one_more_starts = 0 < self._allowed() >= threads.busy
            (self._preemption.make_room if one_more_starts else self._preemption.report)(threads)

    def _wait_without_thread(self, timeout: float) -> None:
        """Hand back runs claimed ahead when their threads do not return: other workers may be idle."""
        if self.draining:
            time.sleep(DRAINING_PAUSE_S)
        elif self.idle.is_overcommitted:
            self.idle.forget()
            self.runs.let_go()
        elif not self.closed:
            self._make_room()
        self._open.wait(timeout)  # for a resume, where it is paused

    def _wanted(self, idle: int) -> int:
        """Return how many runs to take on this machine now; none ahead while its load limits the threads."""
        allowed = self._allowed()
        return idle if allowed >= self.idle.total else min(idle, allowed - (self.idle.out - idle))

    def _take_from_queue(self, n: int, threads: ThreadUse) -> Take | None:
        """Take runs, after the change that the last take left to await; None while closed."""
        after, self._awaited = None if are_reserved(self.headroom(), n) else self._awaited, None
        if self.closed:
            return None
        nonce, actions, options = new_id("n"), self._actions, self._options
        worker, lease_ms, record = options.worker, options.lease_ms, options.recorder.wanted()
        taken = self.queue.take(
            worker, n, lease_ms, nonce=nonce, threads=threads, after=after, actions=actions, record=record
        )
        options.recorder.keep(taken.looks)
        return taken

    def _claim(self, taken: Take, asked_at: float) -> list[str]:
        with self.claiming:
            if self.closed:
                for grant in taken.grants:
                    self.queue.give_back(self._options.worker, grant.run_id, grant.token)
                return []
            grants, are_many = taken.grants, len(taken.grants) >= self.idle.total
            self.rushed = self.idle.brief and are_many and not any(grant.needs for grant in grants)
            return self._claim_or_return(grants, asked_at if taken.asked_at is None else taken.asked_at)

    def _claim_or_return(self, grants: Sequence[Grant], taken_at: float) -> list[str]:
        """Claim granted runs. A run that cannot be claimed now returns to the queue. Others are dropped."""
        if not grants:
            return []
        try:
            failpoints.hit(failpoints.Step.TAKEN)
            claimed = set(self.runs.claim(grants, taken_at))
        except Exception as error:  # noqa: BLE001 - whatever it is, nothing may run without a claim
            log.warning("returned %d runs to the queue, because the claim failed: %s", len(grants), error)
            for grant in grants:
                self.queue.give_back(self._options.worker, grant.run_id, grant.token, delay=CLAIM_RETRY_DELAY_MS)
            return []
        dropped = [grant for grant in grants if grant.run_id not in claimed]
        if dropped:  # they used nothing
            ends = [Finish(grant.run_id, grant.token, dict.fromkeys(grant.needs, 0.0)) for grant in dropped]
            self.queue.finish(self._options.worker, ends)
        return [grant.run_id for grant in grants if grant.run_id in claimed]


class RunConsumer(dramatiq.Consumer):
    """The consumer that Dramatiq's thread iterates over. A thread is idle again when its message is acknowledged."""

    def __init__(self, broker: DispatchBroker, timeout: float) -> None:
        self._broker = broker
        self._timeout = timeout
        self._started: deque[str] = deque()

    def __next__(self) -> MessageProxy | None:
        if not self._started:
            self._started.extend(self._broker.runs.line_up(self._broker.take(self._timeout)))
        return MessageProxy(_message(self._started.popleft())) if self._started else None

    def ack(self, message: MessageProxy) -> None:  # noqa: ARG002 - Dramatiq's signature
        self._broker.idle.give(1)

    def nack(self, message: MessageProxy) -> None:
        self.ack(message)

    def requeue(self, messages: Iterable[MessageProxy]) -> None:
        """Count the threads of messages that never ran; the stopping worker hands their claims back."""
        for message in messages:
            self.ack(message)


def _message(run_id: str) -> Message[None]:
    return Message(queue_name=RUN_QUEUE, actor_name=RUN_ACTOR, args=(run_id,), kwargs={}, options={}, message_id=run_id)

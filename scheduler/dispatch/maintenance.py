"""Maintenance: repairs what the dispatcher or a crash missed; whatever the queue lost, the database still has."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta
from typing import Protocol

from duetime.scheduler.dispatch.dispatcher import ExpiryReport
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.rebuild import refill
from duetime.scheduler.dispatch.rekey import NewKeys
from duetime.scheduler.events import EventKind
from duetime.scheduler.queue import DispatchQueue, Finish, QueueLost, QueueUnavailable
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.run_records import Claim, LostAttempt, Settlement
from duetime.scheduler.runtime.loop import Loop, StepParts
from duetime.scheduler.runtime.notices import DelaysShortened, RunsQueued, RunsQueuedAtStart
from duetime.scheduler.runtime.notifier import RunEvent, RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.store.dispatch.recover import ENDED_IN_ORDER

MAINTENANCE_INTERVAL_S = 30.0
LEASE_CHECK_INTERVAL_S = 3.0
"""Seconds between two looks for expired leases: with a lease of 30 s, work continues at most 35 s after a crash."""

MAX_ROUND_GAP_S = 10.0
"""Seconds between two rounds that prove an outage of the database, or a pause of this process."""

LEASE_UNCHANGED_S = 30.0
"""Seconds for which an expired lease must stay unchanged when clocks disagree about its end."""

MAINTENANCE_PAUSE_RATIO = 50
"""Maintenance uses at most one part in this many of the time, for any number of ready runs."""
KEY_CLEANUP_INTERVAL_S = 3600.0
_MAX_KEYS_FORGOTTEN = 500
_MAX_ENDS_FOLLOWED = 200
_MAX_APPROVALS_ANSWERED = 200
_MAX_HELD_RUNS_EXPIRED = 200
_MAX_PAUSED_RUNS_NOTED = 1000
"""Runs of paused tasks that one look removes from the timers, beyond those that the pause itself removed."""

NO_LIVE_WORKER = "nobody"
"""The worker name under which attempts of dead workers are settled."""

LEASE_EXPIRED = "the lease expired without a live worker"
UNREADABLE_RUN = "the time or the state cannot be read, which ended as failed"
_LOST_REASONS = {
    EventKind.CRASHED: LEASE_EXPIRED,
    EventKind.SUSPENDED: ENDED_IN_ORDER,
    EventKind.CANCELLED: ENDED_IN_ORDER,
    EventKind.DAMAGED: UNREADABLE_RUN,
}

log = logging.getLogger(__name__)


class MaintainedWorker(Protocol):
    """The worker of the same process."""

    def held(self) -> Collection[str]:
        """Return the runs that it has claimed and not settled."""

    def learn(self) -> None:
        """Store the durations that it has measured."""

    def give_back(self) -> bool:
        """Hand back runs that were started for it without its knowledge; return whether there were any."""


class RunFinder(Protocol):
    """The dispatcher of the same process."""

    def wake(self) -> None:
        """Look at once for runs that are due."""


class NoNeighbours:
    """Stands for the worker and the dispatcher of a process that has neither."""

    def held(self) -> Collection[str]:
        return ()

    def learn(self) -> None:
        """Do nothing: nothing was measured."""

    def give_back(self) -> bool:
        """Do nothing: nothing is started here."""
        return False

    def wake(self) -> None:
        """Do nothing: another process looks for due runs."""


NO_NEIGHBOURS = NoNeighbours()


class Maintenance:
    """Puts ready runs that the queue has lost back into it, at the start and every 30 seconds.

    The same look expires runs that their series holds up: it reads every run that is held.

    Every 3 s it ends attempts whose lease has expired and which `worker` does not hold, and releases what they had
    reserved. An attempt whose result could not be stored ends so too. First `worker` hands back the runs whose start
    the database did not answer. After an outage it waits one round, so that other workers can renew before. After a
    jump of the database's clock it ends only attempts whose lease stays unrenewed for half a minute: others see the
    jump later.

    The same step gives approvals their default answers, removes expired leases from the queue, and refreshes outdated
    statistics of tables. Once an hour it removes expired idempotency keys and signals.
    """

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        *,
        worker: MaintainedWorker = NO_NEIGHBOURS,
        dispatcher: RunFinder = NO_NEIGHBOURS,
        placement: Placement = Placement(),  # noqa: B008 - a frozen value
        epoch: int | None = None,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._queue = queue
        self._worker = worker
        self._dispatcher = dispatcher
        self._placement = placement
        self._new_keys = NewKeys(store, queue, placement)
        self._epoch = epoch
        self._notifier = notifier
        self._clock = clock
        self._parts = StepParts("maintenance", QueueLost, QueueUnavailable, clock=clock)
        self._looked = False
        self._look_at = self._forget_at = clock()
        self._ended_at = clock()
        self._could_look = True
        self._seen: tuple[datetime, float] | None = None
        """The last time of the store, and when that was by the monotonic clock."""
        self._lapsed: dict[str, tuple[datetime, float]] = {}
        self.loop = Loop("maintenance", self.step, replaced=notifier.on_replaced)

    def step(self) -> float:
        """Do what is due, and return the seconds until the next step."""
        could_look = self._could_look and self._clock() - self._ended_at <= MAX_ROUND_GAP_S
        self._could_look = False
        parts = {"clock": self._check_clock, "old keys": self._forget, "approvals": self._answer}
        self._do({**parts, "unanswered starts": self._give_back})
        if could_look:
            self._do({"leases": self._recover})
        else:
            self._store.claims.next_times()  # raises while the database is away
        self._could_look = True
        self._do({"estimates": self._worker.learn, "statistics": self._store.table_statistics.refresh})
        if self._clock() >= self._look_at or self._new_keys.has_new_policy():
            self._look()  # last, for it needs the queue
        if self._queue.reap():
            self._look()
        self._ended_at = self._clock()
        return max(0.0, min(LEASE_CHECK_INTERVAL_S, self._look_at - self._clock()))

    def _do(self, parts: Mapping[str, Callable[[], object]]) -> None:
        """Do all of the parts, even if one of them fails."""
        for name, do in parts.items():
            with self._parts.isolated(name):
                do()

    def _check_clock(self) -> None:
        """At the start, and after this machine's clock was set back: mend delays that would end too late."""
        now, at = self._store.now(), self._clock()
        if self._epoch is not None and (self._seen is None or now < self._seen[0]):
            back = None if self._seen is None else self._seen[0] + timedelta(seconds=at - self._seen[1]) - now
            moved = self._store.claims.restart_delays(back)
            if moved:
                self._notifier.noticed(DelaysShortened(moved))
        self._seen = (now, at)

    def _look(self) -> None:
        """Repair what was missed; a slow look makes the next one later."""
        began = self._clock()
        parts = {"damaged runs": self._fail_damaged, "paused runs": self._note_paused, "overlooked ends": self._repair}
        self._do({**parts, "held runs": self._expire_held, "queue": self._refill})
        now = self._clock()
        self._look_at = now + max(MAINTENANCE_INTERVAL_S, MAINTENANCE_PAUSE_RATIO * (now - began))

    def _refill(self) -> None:
        """Queue the runs that the queue has lost, and give new places to those that have an old estimate."""
        self._new_keys.begin()
        found = refill(self._store, self._queue, self._placement, on_page=self._new_keys.update)
        self._new_keys.end()
        if not self._looked and found.added:
            self._notifier.noticed(RunsQueuedAtStart(found.added))
        elif found.lost:
            self._notifier.noticed(RunsQueued(found.lost))
        self._looked = True

    def _fail_damaged(self) -> None:
        damaged = self._store.claims.fail_damaged()
        self._notifier.happened([RunEvent(EventKind.DAMAGED, run_id, reason=UNREADABLE_RUN) for run_id in damaged])

    def _note_paused(self) -> None:
        self._store.claims.note_paused(limit=_MAX_PAUSED_RUNS_NOTED)

    def _repair(self) -> None:
        """Follow up ends that were not followed up."""
        if self._store.dependencies.repair(limit=_MAX_ENDS_FOLLOWED):
            self._dispatcher.wake()

    def _recover(self) -> None:
        before = self._store.now()  # first, so that no later claim can look abandoned
        known: dict[str, tuple[Settlement, Claim]] = {}

        def conclude(claim: Claim, settlement: Settlement) -> Settlement:
            settled = with_consequences(claim, settlement, now=self._store.now())
            known[claim.run.id] = settled, claim
            return settled

        ended = self._store.claims.recover_lapsed(
            epoch=self._epoch,
            held=self._worker.held(),
            before=before,
            conclude=conclude,
            only=self._unchanged(before) if self._store.clock_leapt() else None,
        )
        if ended:  # what is tried again is not known
            self._notifier.happened(
                [
                    RunEvent(lost.kind, run_id, _LOST_REASONS[lost.kind], *known.get(run_id, (None, None)))
                    for run_id, lost in ended.items()
                ]
            )
            self._release(ended)
            self._dispatcher.wake()

    def _give_back(self) -> None:
        """Hand back runs that were started in an outage, before their leases end and they count as crashed."""
        if self._worker.give_back():
            self._dispatcher.wake()

    def _unchanged(self, before: datetime) -> list[str]:
        """Return the runs whose expired lease no worker has renewed while this process watched."""
        now = self._clock()
        seen = {run_id: (until, now) for run_id, until in self._store.claims.lapsed(before).items()}
        known = self._lapsed
        self._lapsed = {
            run_id: known[run_id] if run_id in known and known[run_id][0] == first[0] else first
            for run_id, first in seen.items()
        }
        return [run_id for run_id, (_, since) in self._lapsed.items() if now - since >= LEASE_UNCHANGED_S]

    def _release(self, ended: Mapping[str, LostAttempt]) -> None:
        """Release the reservations of lost attempts, all of it as used.

        Else it stays taken until the leases expire.
        """
        ends = [Finish(run_id, lost.token) for run_id, lost in ended.items() if lost.token]
        try:
            self._queue.finish(NO_LIVE_WORKER, ends)
        except (QueueLost, QueueUnavailable) as error:
            log.debug("cannot release the leases in the queue, they expire on their own: %s", error)

    def _expire_held(self) -> None:
        """Expire runs that wait for another one of their series: the dispatcher's timers leave them out."""
        report = ExpiryReport(self._queue, self._store.now)
        expired = self._store.claims.expire(limit=_MAX_HELD_RUNS_EXPIRED, conclude=report.conclude, held=True)
        self._notifier.changed([run.task_id for run in expired])
        self._notifier.happened([report.event(run.run_id) for run in expired])
        if expired:
            self._dispatcher.wake()

    def _answer(self) -> None:
        """Give the default answers to approvals whose deadline has passed."""
        answered = self._store.approvals.expire(limit=_MAX_APPROVALS_ANSWERED)
        self._notifier.changed(answered)
        if answered:
            self._dispatcher.wake()

    def _forget(self) -> None:
        if self._clock() < self._forget_at:
            return
        most = _MAX_KEYS_FORGOTTEN
        if max(self._store.tasks.forget_keys(limit=most), self._store.signals.forget(limit=most)) < most:
            self._forget_at = self._clock() + KEY_CLEANUP_INTERVAL_S

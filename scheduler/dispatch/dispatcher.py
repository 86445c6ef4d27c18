"""The dispatcher: moves due runs from the database into the queue, at their time, and ends those that are too late.

It sleeps until the next run is due, two seconds at most, and then reads the wall clock again. After a laptop wakes up,
all runs that fell due start at once. Runs are moved a second early and wait in the queue for their time. So a second
for which thousands are scheduled needs no more database work than their starts.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.events import EventKind
from duetime.scheduler.foresight.explain import expiry_cause
from duetime.scheduler.queue import DispatchQueue, Entry, QueueLost, QueueUnavailable
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.run_records import Claim, ReadyRun, Settlement
from duetime.scheduler.runtime import failpoints
from duetime.scheduler.runtime.loop import Loop, StepParts
from duetime.scheduler.runtime.notifier import RunEvent, RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord

MAX_DISPATCH_SLEEP_S = 2.0
OVERDUE_RETRY_S = MAX_DISPATCH_SLEEP_S / 100
"""Pause before the next look at what is overdue and could not be moved: another process has its rows locked."""
READY_AHEAD = timedelta(seconds=1)
"""Time before its due time at which a run enters the queue, which grants it at its due time and not before."""

WAKE_HORIZON = READY_AHEAD + 2 * timedelta(seconds=MAX_DISPATCH_SLEEP_S)
"""A new run whose timers fire later than this needs no wake-up: the dispatcher looks again in time by itself."""

MAX_RUNS_PER_BATCH = 200
"""Runs made ready in one transaction: enough to be cheap, few enough that the first ones start soon."""

MAX_TASKS_RESUMED = 100
"""Tasks resumed in one transaction, statement by statement: others wait for it on SQLite."""

MAX_EXPIRED_RUNS_EXPLAINED = 20
"""Expired runs per transaction for which the queue is queried about what they waited for."""


class ExpiryReport:
    """The runs that one transaction expires: why each could not start in time, and the event of its end."""

    def __init__(self, queue: DispatchQueue, now: Callable[[], datetime]) -> None:
        self._queue = queue
        self._now = now
        self._explanations_left = MAX_EXPIRED_RUNS_EXPLAINED
        self._ends: dict[str, tuple[Settlement, Claim]] = {}

    def conclude(self, claim: Claim, end: Settlement) -> Settlement:
        """Return the end of a run, with what a ready one waited for."""
        if claim.run.state is State.READY and (waited := self._last_waited_for(claim)):
            reason = f"{end.reason}; {waited}"
            end = replace(end, reason=reason, error=reason)
        settled = with_consequences(claim, end, now=self._now())
        self._ends[claim.run.id] = settled, claim
        return settled

    def event(self, run_id: str) -> RunEvent:
        """Return the event of a run that expired; a damaged one was not concluded, and has no settlement."""
        settlement, claim = self._ends.get(run_id, (None, None))
        return RunEvent(EventKind.EXPIRED, run_id, settlement=settlement, claim=claim)

    def _last_waited_for(self, claim: Claim) -> str:
        """Query the queue for what kept a run; only a few of each batch, because the transaction waits."""
        if self._explanations_left == 0:
            return ""
        self._explanations_left -= 1
        try:
            found = self._queue.explain(claim.run.id)
        except (QueueLost, QueueUnavailable):
            self._explanations_left = 0
            return ""
        return expiry_cause(found, TaskRecord(claim.task, claim.run), self._now())


class Dispatcher:
    """Makes due runs ready, as the runner of `epoch`. `notifier` is called with moved and expired runs."""

    def __init__(
        self,
        store: Store,
        queue: DispatchQueue,
        *,
        placement: Placement = Placement(),  # noqa: B008 - a frozen value
        epoch: int | None = None,
        notifier: RunNotifier = RunNotifier(),  # noqa: B008 - a frozen value
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._queue = queue
        self._placement = placement
        self._epoch = epoch
        self._notifier = notifier
        self._clock = clock
        self._parts = StepParts("dispatcher", QueueLost, QueueUnavailable, clock=clock)
        self._handed_in: deque[ReadyRun] = deque()
        self._to_rescore: deque[str] = deque()
        self._look_requested = False
        self._freed = False
        self._look_at = -math.inf
        self._timer_at = -math.inf  # when the next timer fires that is not that of a due run
        self.loop = Loop("dispatcher", self.step, replaced=notifier.on_replaced)

    def place(self, run: ReadyRun) -> None:
        """Put a run that was stored as READY into the queue, soon. May be called from any thread."""
        self._handed_in.append(run)
        self.loop.wake()

    def rescore(self, run_ids: Sequence[str]) -> None:
        """Give ready runs the place that they have by now, soon. May be called from any thread."""
        self._to_rescore.extend(run_ids)
        self.loop.wake()

    def wake(self) -> None:
        """Look at once for due runs. May be called from any thread."""
        self._look_requested = True
        self.loop.wake()

    def freed(self) -> None:
        """Look at once for runs that waited and are due by now. May be called from any thread."""
        self._freed = True
        self.wake()

    def step(self) -> float:
        """Dispatch the runs handed in, else one batch of due runs; return the seconds until the next step."""
        placed, left = self._place_handed_in(), self._look_at - self._clock()
        self._rescore()
        if placed and left > 0 and not self._look_requested:
            return left  # the database is busy enough with the starts of these
        self._look_requested, self._look_at = False, -math.inf
        freed, self._freed = self._freed, False
        known_until, self._timer_at = self._timer_at, -math.inf  # a timer may have been set since: the next step looks
        sleep = 0.0 if freed and self._clock() < known_until and self._make_ready() else self._look()
        self._look_at = self._clock() + sleep
        return sleep

    def _look(self) -> float:
        times = self._store.claims.next_times()
        others = (times.drop_at, times.late_at, times.series_at, times.resume_at)
        until_due, until_other_timer = self._until(times.wake_at), min(map(self._until, others))
        until_ready = until_due - READY_AHEAD.total_seconds()
        self._timer_at = self._clock() + until_other_timer
        if min(until_ready, until_other_timer) > 0:
            return min(until_ready, until_other_timer, MAX_DISPATCH_SLEEP_S)
        self._parts.failed = False
        fired = until_other_timer <= 0 and self._fire_timers()
        if (until_ready <= 0 and self._make_ready()) or fired:
            return 0.0
        until_next = until_due if self._parts.failed else min(until_due, until_other_timer)
        retry_s = MAX_DISPATCH_SLEEP_S if self._parts.failed else OVERDUE_RETRY_S
        return min(until_next, MAX_DISPATCH_SLEEP_S) if until_next > 0 else retry_s

    def _make_ready(self) -> bool:
        """Make a batch of due runs ready; return whether there were any."""
        ready: Sequence[ReadyRun] = ()
        with self._parts.isolated("due runs"):
            ready = self._store.claims.make_ready(
                limit=MAX_RUNS_PER_BATCH, epoch=self._epoch, ahead=READY_AHEAD, on_ready=self._place_ready
            )
        return bool(ready)

    def _fire_timers(self) -> bool:
        """Fire the timers other than those of due runs, before these; return whether anything changed.

        A deadline that passed during a pause expires at its end, before its run is made ready. If that fails, the run
        becomes ready and the claim refuses it.
        """
        timers = {
            "pauses": self._end_pauses,
            "deadlines": self._expire,
            "waits": self._end_waits,
            "series": self._overtake,
        }
        changed = False
        for name, fire in timers.items():
            with self._parts.isolated(name):
                changed |= fire()
        return changed

    def _place_handed_in(self) -> bool:
        """Queue the runs handed in; return whether no other work is left, since no timer belongs to them."""
        new = [self._handed_in.popleft() for _ in range(len(self._handed_in))]
        if new:
            self._queue.put(self._placement.entries(new, self._store.now()))
        return bool(new) and all(run.drop_at is None for run in new)

    def _rescore(self) -> None:
        """Give runs a new key, as other tasks wait for them now; the queue ignores what is not in it any more."""
        moved = {self._to_rescore.popleft() for _ in range(len(self._to_rescore))}
        if moved:
            for run in self._store.decisions.ready_runs(moved, self._store.now()):
                self._queue.rescore(run.run_id, self._placement.key(run))

    def _place_ready(self, ready: Sequence[ReadyRun]) -> None:
        """Queue runs that are ready from now on, before anything else that may fail: no later step finds them."""
        failpoints.hit(failpoints.Step.MADE_READY)
        entries = self._placement.entries(ready, self._store.now())
        if self._queue.put(entries) < len(entries):
            self._requeue(entries)
        failpoints.hit(failpoints.Step.PUT)
        self._notifier.changed([run.task_id for run in ready])
        drops = {run.run_id: at for run in ready if (at := self._placement.drop_at(run)) is not None}
        if drops:
            self._store.claims.redate(drops)

    def _requeue(self, entries: Sequence[Entry]) -> None:
        """Replace entries that the queue still holds from before their run was moved, paused or changed.

        A leased run takes its new place when its lease ends: a cancel drops the entry kept aside, so it is put again.
        """
        for entry in entries:
            self._queue.cancel(entry.run_id)
        self._queue.put(entries)

    def _expire(self) -> bool:
        """End runs that cannot meet their hard deadline any more, and give late soft runs a new key."""
        report = ExpiryReport(self._queue, self._store.now)
        expired = self._store.claims.expire(limit=MAX_RUNS_PER_BATCH, conclude=report.conclude)
        for run in expired:
            self._queue.cancel(run.run_id)
        late = self._store.claims.relax(limit=MAX_RUNS_PER_BATCH)
        for ready in late:
            self._queue.rescore(ready.run_id, self._placement.key(ready))
        self._notifier.changed([run.task_id for run in expired])
        self._notifier.happened([report.event(run.run_id) for run in expired])
        return bool(expired or late)

    def _end_waits(self) -> bool:
        """End the waits for signals that have not come in time."""
        late = self._store.signals.end_late(limit=MAX_RUNS_PER_BATCH)
        self._notifier.changed(late)
        return bool(late)

    def _overtake(self) -> bool:
        """Let the occurrences begin that do not wait for the run before them."""
        moved = self._store.series.overtake(limit=MAX_RUNS_PER_BATCH)
        for run_id in moved.cancelled:
            self._queue.cancel(run_id)
        self._notifier.changed(moved.tasks)
        if moved.tasks:
            self._notifier.on_stop_wanted()
        return bool(moved.tasks)

    def _end_pauses(self) -> bool:
        """Resume the tasks that were paused until now."""
        resumed = self._store.series.end_pauses(limit=MAX_TASKS_RESUMED)
        self._notifier.changed(resumed)
        return bool(resumed)

    def _until(self, moment: datetime | None) -> float:
        return math.inf if moment is None else (moment - self._store.now()).total_seconds()

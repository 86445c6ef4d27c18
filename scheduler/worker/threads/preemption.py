"""Preemption: runs of this worker yield to more urgent ones that wait for a thread, or for units of pools.

The broker looks for the former when its threads are busy, a loop for the latter while willing runs hold units. It is
cooperative: `ctx.should_yield()` turns true, and a handler that returns `Yielded` is suspended, with its age kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace

from duetime.scheduler.outcomes import Yielded
from duetime.scheduler.queue import DispatchQueue, QueueLost, QueueUnavailable, ThreadUse
from duetime.scheduler.rules.headroom import least_urgent
from duetime.scheduler.rules.preemption import YIELD_NOTICE_MS, RunningTurn, runs_to_ask
from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.runtime.notices import YieldRequested
from duetime.scheduler.task import Tier
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns

GAVE_WAY = "gave way to a more urgent run"

PREEMPTION_INTERVAL_S = 0.25
"""Seconds between looks for urgent runs. These are those without a thread while no thread is idle except the headroom,
and those that lack units while willing runs hold some.
"""

MAX_PREEMPTIBLE_RUNS = 32
"""Willing runs that one look reports: the least urgent."""


class Preemption:
    """Requests runs of `worker`, which has `actions`, to yield; `count` is how many did. `clock` is in seconds."""

    def __init__(
        self,
        queue: DispatchQueue,
        active_runs: ActiveRuns,
        *,
        worker: str,
        actions: Collection[str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.count = 0
        self._queue = queue
        self._active_runs = active_runs
        self._worker = worker
        self._actions = None if actions is None else frozenset(actions)
        self._clock = clock
        self._asleep = False
        self.loop = Loop("preemption", self.release_units)

    def began(self, held: ActiveRun) -> None:
        """Record that a run starts on a thread now."""
        held.turn.began_at = self._clock()
        if self._asleep and _may_release_units(held):
            self.loop.wake()

    def make_room(self, threads: ThreadUse) -> None:
        """Look for urgent runs without an idle thread that are about to be late, and request that others yield."""
        running = {held.run_id: held for held in self._active_runs.all() if held.turn.began_at is not None}
        turns = [self._turn(held) for held in running.values() if not held.ended]
        willing = [turn for turn in turns if turn.may_be_asked]
        idle = threads.idle
        tiers = (least_urgent(threads.headroom, idle) + 1, max((turn.tier for turn in willing), default=1) - 1)
        with suppress(QueueLost, QueueUnavailable):
            waiting = self._queue.assign_preemptors(
                self._worker, len(willing), tiers, YIELD_NOTICE_MS, threads=threads, actions=self._actions
            )
            for run_id in runs_to_ask(waiting, turns, idle=idle, headroom=threads.headroom):
                self._ask(running[run_id])

    def report(self, threads: ThreadUse) -> None:
        """Report the threads of a worker whose machine starts nothing more, also if a run yields."""
        with suppress(QueueLost, QueueUnavailable):
            self._queue.assign_preemptors(self._worker, 0, (1, 0), 0.0, threads=threads, actions=self._actions)

    def release_units(self) -> float | None:
        """Look for urgent runs that lack units of pools, and request that runs which hold some yield.

        Returns the seconds until the next look, None while no run could be requested.
        """
        self._asleep = True
        holding = {held.run_id: held for held in self._active_runs.all() if _may_release_units(held)}
        if not holding:
            return None
        self._asleep = False
        turns = [self._turn(held) for held in holding.values() if not held.yielding]
        willing = sorted((turn for turn in turns if turn.is_willing), key=lambda turn: (-turn.tier, turn.seconds))
        if willing:
            run_ids = [turn.run_id for turn in willing[:MAX_PREEMPTIBLE_RUNS]]
            with suppress(QueueLost, QueueUnavailable):
                for run_id in self._queue.runs_to_preempt(run_ids, YIELD_NOTICE_MS):
                    self._ask(holding[run_id])
        return PREEMPTION_INTERVAL_S

    def _ask(self, held: ActiveRun) -> None:
        held.turn.asked_at = self._clock()
        held.yielding = True
        held.notifier.noticed(YieldRequested(held.run_id))

    def ended(self, held: ActiveRun, ending: AttemptResult) -> AttemptResult:
        """Count a run that yielded on request, and return its result with the reason."""
        if held.turn.asked_at is None or not isinstance(ending, Yielded):
            return ending
        self.count += 1
        return replace(ending, reason=f"{GAVE_WAY}: {ending.reason}" if ending.reason else GAVE_WAY)

    def _turn(self, held: ActiveRun) -> RunningTurn:
        now, turn, run = self._clock(), held.turn, held.claim.run
        return RunningTurn(
            held.run_id,
            held.claim.task.priority.rank,
            seconds=now - (turn.began_at or now),
            again=run.attempt > 1,
            progressed=turn.progressed,
            polls=turn.polls,
            since_request_s=None if turn.asked_at is None else now - turn.asked_at,
        )


def _may_release_units(held: ActiveRun) -> bool:
    """Whether a run on a thread holds units of pools, and a more urgent one is possible."""
    on_thread = held.turn.began_at is not None and not held.ended
    return on_thread and bool(held.claim.reserved) and held.claim.task.priority is not Tier.CRITICAL

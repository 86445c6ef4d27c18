"""The dispatch queue of one process: a `QueueState` under one lock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from threading import Condition

from duetime.scheduler.queue.constants import CALM_AFTER_MS, CALM_PERIOD_MS, MIN_DAMAGE_INTERVAL_MS, REBUILD_TURN_MS
from duetime.scheduler.queue.lanes import KnownActions
from duetime.scheduler.queue.memory.lease import Put
from duetime.scheduler.queue.memory.state import QueueState
from duetime.scheduler.queue.port import Cancelled, Entry, Finish, Grant, QueueChange, QueueLost, Take
from duetime.scheduler.queue.reports import Explanation, Stats, ThreadUse
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.rules.limits.queue_time import QueueTime
from duetime.scheduler.rules.policies.decision import Look
from duetime.scheduler.rules.shares import TIER_COUNT, Shares

REBUILD_HINT_S = 0.05


def wall_ms() -> float:
    return time.time() * 1000


class MemoryQueue:
    """See `DispatchQueue`. `clock` returns milliseconds since 1970."""

    def __init__(self, clock: Callable[[], float] = wall_ms) -> None:
        self._clock = clock
        self._changed = Condition()
        self._generation = 0
        self._time = QueueTime(clock())
        self._state = QueueState(epoch=1, time=self._time)
        self._complete = True
        self._builder: tuple[str, float] = ("", 0.0)
        self._emptied_at = -math.inf
        self._takes: dict[str, tuple[str, tuple[Grant, ...]]] = {}
        self._last_call = self._time.now
        self._calm_until = 0.0

    def put(self, entries: Sequence[Entry]) -> int:
        with self._changed:
            now = self._called()
            first = {entry.run_id: entry for entry in reversed(entries)}
            done = [self._state.put(entry, now) for entry in entries if first[entry.run_id] is entry]
            if any(each is not Put.KEPT for each in done):
                self._wake()
            return done.count(Put.ADDED)

    def take(
        self,
        worker: str,
        n: int,
        lease: float,
        *,
        nonce: str = "",
        threads: ThreadUse | None = None,
        after: QueueChange | None = None,
        actions: KnownActions = None,
        record: bool = False,
    ) -> Take:
        if after is not None:
            self.wait(after.generation, after.timeout)
        asked_at = None if after is None else time.monotonic()
        with self._changed:
            now = self._called()
            if not self._complete:
                return Take((), self._generation, REBUILD_HINT_S, asked_at)
            known, before = self._takes.get(worker, ("", ()))
            if nonce and nonce == known:
                held = tuple(grant for grant in before if self._state.held(grant.run_id, grant.token))
                return Take(held, self._generation, 0.0, asked_at)
            self._state.pass_time(now)
            seen = list[Look]() if record else None
            granted, hint, left = self._state.grant(
                worker, n, now, now + lease, threads=threads, actions=actions, seen=seen
            )
            if nonce:
                self._takes[worker] = (nonce, granted)
            if left:
                self._wake()
            return Take(granted, self._generation, hint, asked_at, tuple(seen or ()))

    def assign_preemptors(
        self,
        worker: str,
        n: int,
        tiers: tuple[int, int],
        notice: float,
        *,
        threads: ThreadUse | None = None,
        actions: KnownActions = None,
    ) -> tuple[int, ...]:
        with self._changed:
            now = self._called()
            if not self._complete:
                return ()
            if threads is not None:
                self._state.threads.report(worker, threads, 0, now, actions)
            found, moved = self._state.assign_preemptors(n, tiers, self._time.wall + notice, now, actions)
            if moved:
                self._wake()
            return found

    def runs_to_preempt(self, willing: Sequence[str], notice: float) -> tuple[str, ...]:
        with self._changed:
            now = self._called()
            return self._state.preemption.ask(willing, self._time.wall + notice, now) if self._complete else ()

    def wait(
        self,
        generation: int,
        timeout: float,
        *,
        tier: int = TIER_COUNT,  # noqa: ARG002 - it may go on too early
        actions: Collection[str] = (),  # noqa: ARG002 - likewise
    ) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._generation != generation, timeout)

    def wake(self) -> None:
        with self._changed:
            self._wake()

    def renew(self, worker: str, tokens: Mapping[str, str], lease: float) -> set[str]:  # noqa: ARG002 - the token proves it
        with self._changed:
            until = self._called(complete=True) + lease
            lost = set()
            for run_id, token in tokens.items():
                held = self._state.held(run_id, token)
                if held is None:
                    lost.add(run_id)
                else:
                    held.until = until
            return lost

    def finish(self, worker: str, ended: Sequence[Finish], *, jitter: float = 0.0) -> set[str]:  # noqa: ARG002 - the token proves it
        with self._changed:
            now = self._called(complete=True)
            lost = {each.run_id for each in ended if not self._state.finish(each, now, jitter)}
            self._wake()
            return lost

    def give_back(self, worker: str, run_id: str, token: str, *, delay: float = 0) -> bool:  # noqa: ARG002 - the token proves it
        with self._changed:
            given = self._state.give_back(run_id, token, delay, self._called(complete=True))
            if given:
                self._wake()
            return given

    def reap(self) -> list[str]:
        with self._changed:
            now = self._called()
            if now < self._calm_until or not self._complete:
                return []
            reaped = self._state.reap(now)
            if reaped:
                self._wake()
            return reaped

    def cancel(self, run_id: str) -> Cancelled:
        with self._changed:
            found = self._state.cancel(run_id, self._called())
            if found is Cancelled.REMOVED:
                self._wake()
            return found

    def rescore(self, run_id: str, key: float) -> bool:
        with self._changed:
            moved = self._state.rescore(run_id, key, self._called())
            if moved:
                self._wake()
            return moved

    def set_pool(self, name: str, limits: Limits | None, *, spent: float = 0.0, empty: bool = False) -> None:
        with self._changed:
            self._state.pools.set(name, limits, self._called(), spent=spent, empty=empty)
            self._wake()

    def set_shares(self, shares: Shares, version: int) -> None:
        with self._changed:
            self._called()
            if version >= self._state.policy:
                self._state.policy, self._state.shares = version, shares

    def stats(self) -> Stats:
        with self._changed:
            return replace(self._state.stats(self._called()), policy=self._state.policy)

    def explain(self, run_id: str) -> Explanation | None:
        with self._changed:
            return self._state.explain(run_id, self._called())

    def begin_rebuild(self, owner: str, *, damage: str = "") -> bool:
        with self._changed:
            now = self._pass_time()
            builder, until = self._builder
            if not self._complete and now < until and builder != owner:
                return False
            if self._complete and damage and now - self._emptied_at < MIN_DAMAGE_INTERVAL_MS:
                return False
            self._emptied_at = now
            self._complete, self._builder = False, (owner, now + REBUILD_TURN_MS)
            self._state = QueueState(epoch=self._state.epoch, time=self._time)
            self._takes = {}
            return True

    def adopt(self, worker: str, entry: Entry, token: str, lease: float) -> bool:
        with self._changed:
            now = self._called()
            return self._state.adopt(entry, token, worker, now, now + lease)

    def end_rebuild(self, owner: str) -> bool:
        with self._changed:
            now = self._pass_time()
            builder, until = self._builder
            if self._complete or builder != owner or now >= until:
                return False
            self._complete = True
            self._state.epoch += 1
            self._wake()
            return True

    # The methods below expect the caller to hold the lock.

    def _called(self, *, complete: bool = False) -> float:
        """Record a call and return its time. Raises QueueLost while the content of the queue is incomplete."""
        now = self._pass_time()
        if not self._complete and (complete or now >= self._builder[1]):
            raise QueueLost("the queue is being rebuilt from the database")
        if now - self._last_call > CALM_AFTER_MS:
            self._calm_until = now + CALM_PERIOD_MS
        self._last_call = now
        return now

    def _pass_time(self) -> float:
        self._time = self._time.at(self._clock())
        self._state.pools.pass_time(self._time)
        return self._time.now

    def _wake(self) -> None:
        self._generation += 1
        self._changed.notify_all()

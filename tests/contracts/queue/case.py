"""The base of every test of a `DispatchQueue`: a clock, runs, and a hand that keeps the tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Thread
from typing import Any

import pytest
from duetime.scheduler.queue import (
    DispatchQueue,
    Entry,
    Finish,
    Grant,
    Kind,
    Limits,
    PoolUse,
    Report,
    Shortage,
    Take,
)

LEASE_MS = 4000.0
"""Milliseconds; less than CALM, so that a clock that jumps over it is not taken for an outage."""
CALM_MS = 5000.0


class Clock:
    """Milliseconds that only move when told to."""

    def __init__(self) -> None:
        self.ms = 1_800_000_000_000.0

    def __call__(self) -> float:
        return self.ms


def slots(capacity: float, **more: Any) -> Limits:
    return Limits(Kind.SLOTS, capacity, **more)


class QueueCase:
    """The helpers. Nothing waits for a clock of the world, but for the threads of the wake-up tests."""

    grants: dict[str, Grant]

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture(autouse=True)
    def _empty_hand(self) -> None:
        self.grants = {}

    def entry(
        self,
        clock: Clock,
        run_id: str,
        key: float = 0,
        needs: Mapping[str, int] | None = None,
        *,
        tier: int = 3,
        after: float = 0,
    ) -> Entry:
        return Entry(run_id, clock.ms + key, tier, needs or {}, delay=after)

    def taken(self, queue: DispatchQueue, n: int = 99, worker: str = "w", lease: float = LEASE_MS) -> list[str]:
        return list(self.take(queue, n, worker, lease).run_ids)

    def take(
        self, queue: DispatchQueue, n: int = 99, worker: str = "w", lease: float = LEASE_MS, nonce: str = ""
    ) -> Take:
        """Take, and keep the tokens for what comes."""
        take = queue.take(worker, n, lease, nonce=nonce)
        self.grants |= {grant.run_id: grant for grant in take.grants}
        return take

    def finish(
        self,
        queue: DispatchQueue,
        *run_ids: str,
        used: Mapping[str, float] | None = None,
        reports: tuple[Report, ...] = (),
        began_after: float = 0,
    ) -> bool:
        """Finish runs with the tokens that they were taken with; whether all were held."""
        ends = [Finish(run_id, self.token(run_id), used or {}, reports, began_after) for run_id in run_ids]
        return not queue.finish("w", ends)

    def give_back(self, queue: DispatchQueue, run_id: str, delay: float = 0) -> bool:
        return queue.give_back("w", run_id, self.token(run_id), delay=delay)

    def renew(self, queue: DispatchQueue, *run_ids: str, lease: float = LEASE_MS) -> set[str]:
        return queue.renew("w", {run_id: self.token(run_id) for run_id in run_ids}, lease)

    def shortage(self, queue: DispatchQueue, run_id: str) -> Shortage:
        """Return what keeps a run that is parked from starting."""
        found = queue.explain(run_id)
        assert found is not None
        assert found.shortage is not None
        return found.shortage

    def token(self, run_id: str) -> str:
        return self.grants[run_id].token

    def pool(self, queue: DispatchQueue, name: str) -> PoolUse:
        return queue.stats().pools[name]

    def patiently(self, queue: DispatchQueue, clock: Clock) -> tuple[int, list[str]]:
        """Take, and do it again whenever the queue said that time may help; how many ms it took, and what came."""
        began, take = clock.ms, self.take(queue)
        while not take.grants:
            assert take.hint is not None, "time alone will not help"
            clock.ms += take.hint * 1000
            take = self.take(queue)
        return round(clock.ms - began), list(take.run_ids)

    def returns(self, call: Callable[[], object]) -> None:
        thread = Thread(target=call, daemon=True)
        thread.start()
        thread.join(120)
        assert not thread.is_alive()

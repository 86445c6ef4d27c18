"""Supervision speaks for what runs every third of a lease, and reads, no more, when others report changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.run_records import Claim
from duetime.scheduler.runtime.interrupt import TimeLimitReached
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns
from duetime.scheduler.worker.watchdog import CANCEL_CHECK_INTERVAL_S, TIME_LIMIT_GRACE_S, Watchdog

from tests import blank
from tests.builders import Clock, started

LEASE = timedelta(seconds=30)
FAR = timedelta(days=1)


class House:
    """One run in hand; what is asked of the store and of the queue is counted, and `unwanted` are answered."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.at = 100.0
        self.renewed = self.proven = self.looks = 0
        self.unwanted = set[str]()
        self.active_runs = ActiveRuns()
        self.claim: Claim = started(store, worker="w")
        self.active_runs.add([self.claim])
        queue = MemoryQueue()
        monkeypatch.setattr(store.claims, "renew", self.renew)
        monkeypatch.setattr(store.claims, "unwanted", self.look)
        monkeypatch.setattr(queue, "renew", self.prove)
        self.abandoned: list[ActiveRun] = []
        self.watchdog = Watchdog(
            store,
            queue,
            self.active_runs,
            worker="w",
            lease=LEASE,
            abandon=self.abandoned.append,
            clock=lambda: self.at,
        )
        self.watchdog.started(self.held, FAR)

    @property
    def held(self) -> ActiveRun:
        [held] = self.active_runs.all()
        return held

    def renew(self, *_: object, **__: object) -> set[str]:
        self.renewed += 1
        return self.unwanted

    def look(self, *_: object, **__: object) -> set[str]:
        self.looks += 1
        return self.unwanted

    def prove(self, *_: object) -> set[str]:
        self.proven += 1
        return set()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, with a step whenever one is due."""
        until = self.at + seconds
        while self.at < until:
            pause = self.watchdog.step()
            assert pause is not None
            self.at = min(until, self.at + max(pause, 0.001))
        self.watchdog.step()

    @property
    def asked(self) -> tuple[int, int, int]:
        return self.looks, self.renewed, self.proven


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    blank.make(tmp_path / "duetime.db")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock(), synchronous="OFF")
    yield House(store, monkeypatch)
    store.close()


def test_leases_are_renewed_every_third_of_a_lease_though_nobody_asks(house: House) -> None:
    house.pass_time(29)
    assert house.asked == (0, 2, 2)


def test_the_watchdog_looks_and_writes_nothing_where_changes_are_reported(house: House) -> None:
    for _ in range(90):
        house.watchdog.check()
        house.pass_time(0.1)
    assert house.asked[1:] == (0, 0)
    assert 40 <= house.looks <= 9 / CANCEL_CHECK_INTERVAL_S


def test_leases_are_renewed_in_time_however_many_changes_there_are(house: House) -> None:
    for _ in range(290):
        house.watchdog.check()
        house.pass_time(0.1)
    assert house.asked[1:] == (2, 2)


def test_runs_that_start_while_limits_are_enforced_put_no_renewal_off(
    house: House, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_runs, starting = house.active_runs.all, [started(store, worker="w") for _ in range(9)]

    def meanwhile() -> list[ActiveRun]:
        found = all_runs()
        if claims:
            house.active_runs.add([claim := claims.pop()])
            held = house.active_runs.get(claim.run.id)
            assert held is not None
            house.watchdog.started(held, FAR)
        return found

    claims: list[Claim] = []
    monkeypatch.setattr(house.active_runs, "all", meanwhile)
    for claim in starting:
        house.at += 3
        claims.append(claim)
        house.watchdog.step()
    assert house.renewed == 2


def test_a_wish_to_cancel_is_heard_by_a_look(house: House) -> None:
    house.unwanted = {house.claim.run.id}
    house.watchdog.check()
    house.pass_time(CANCEL_CHECK_INTERVAL_S)
    held = house.active_runs.get(house.claim.run.id)
    assert held is not None
    assert held.cancelled
    assert house.asked == (1, 0, 0)


def test_a_run_past_its_time_limit_is_interrupted_and_given_up_after_the_grace_period(
    house: House,
) -> None:
    house.watchdog.started(house.held, timedelta(seconds=2))
    house.pass_time(2)
    assert (house.held.call.pending, house.abandoned) == (TimeLimitReached, [])
    house.pass_time(TIME_LIMIT_GRACE_S - 0.1)
    assert house.abandoned == []
    house.pass_time(0.1)
    assert house.abandoned == [house.held]
    house.pass_time(60)
    assert len(house.abandoned) == 1

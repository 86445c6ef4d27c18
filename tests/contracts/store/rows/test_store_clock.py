"""The time where there is a server: its own clock, carried on between two answers, never going back."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database import clock as clocks
from duetime.scheduler.store.database.clock import Sample, ServerClock, on_a_thread
from duetime.scheduler.task import State
from sqlalchemy import text

from tests.builders import LEASE, NOON, Clock, added, settlement

HOUR = timedelta(hours=1)


@dataclass
class World:
    """A server, this process's clocks, and the way between them. Work for later waits until `later` is called."""

    server: datetime = NOON
    wall: datetime = NOON
    monotonic: float = 500.0
    there: float = 0.0
    back: float = 0.0
    asked: int = 0
    down: bool = False
    left: list[Callable[[], None]] = field(default_factory=list)

    def pass_by(self, seconds: float) -> None:
        self.server += timedelta(seconds=seconds)
        self.wall += timedelta(seconds=seconds)
        self.monotonic += seconds

    def ask(self) -> Sample:
        if self.down:
            raise ConnectionError
        self.asked += 1
        asked = self.monotonic
        self.pass_by(self.there)
        at = self.server
        self.pass_by(self.back)
        return Sample(at, asked, self.monotonic)

    def clock(self) -> ServerClock:
        return ServerClock(self.ask, monotonic=lambda: self.monotonic, wall=lambda: self.wall, soon=self.left.append)

    def later(self) -> None:
        while self.left:
            self.left.pop()()


@pytest.fixture
def world() -> World:
    return World()


def test_it_is_the_servers_time_not_the_machines(world: World) -> None:
    world.wall += HOUR
    clock = world.clock()
    assert clock() == NOON
    world.pass_by(7.25)
    assert clock() == NOON + timedelta(seconds=7.25)


def test_the_answer_was_true_halfway_between_question_and_arrival(world: World) -> None:
    world.there = world.back = 0.2
    clock = world.clock()
    assert clock() == world.server


def test_the_quickest_of_three_answers_counts(world: World) -> None:
    delays = iter([2.0, 0.0, 3.0])
    quick = world.ask

    def ask() -> Sample:
        world.back = next(delays, 0.0)
        return quick()

    clock = ServerClock(ask, monotonic=lambda: world.monotonic, wall=lambda: world.wall, soon=world.left.append)
    assert clock() == world.server


def test_asking_what_time_it_is_asks_the_server_nothing(world: World) -> None:
    clock = world.clock()
    at_first = world.asked
    for _ in range(100):
        world.pass_by(0.29)
        clock()
    assert world.asked == at_first
    assert not world.left


def test_after_thirty_seconds_of_use_the_server_is_asked_again_in_the_background(world: World) -> None:
    clock = world.clock()
    at_first = world.asked
    world.pass_by(30)
    world.server += timedelta(seconds=3)  # the two drifted apart
    assert clock() == world.server - timedelta(seconds=3)
    clock()
    assert world.asked == at_first
    assert len(world.left) == 1
    world.later()
    assert world.asked > at_first
    assert clock() == world.server
    world.pass_by(29)
    clock()
    assert not world.left


def test_a_machine_that_slept_is_noticed_by_its_wall_clock(world: World) -> None:
    clock = world.clock()
    world.server += HOUR
    world.wall += HOUR  # and its monotonic clock stood still
    clock()
    world.later()
    assert clock() == world.server


def test_it_never_goes_backwards_and_never_stands_still(world: World) -> None:
    clock = world.clock()
    world.server -= timedelta(seconds=20)
    seen = [clock()]
    for _ in range(80):
        world.pass_by(1)
        seen.append(clock())
        world.later()
    steps = [after - before for before, after in pairwise(seen)]
    assert min(steps) == timedelta(seconds=0.5)
    assert seen[-1] == world.server


def test_a_server_that_does_not_answer_leaves_the_clock_as_it_is(world: World) -> None:
    clock = world.clock()
    world.down = True
    world.pass_by(31)
    assert clock() == world.server
    world.later()
    world.pass_by(10)
    assert clock() == world.server
    assert not world.left  # it is not asked all the time, either
    world.pass_by(30)
    clock()
    assert world.left


def test_a_process_that_can_start_no_thread_now_asks_the_server_with_a_later_call(world: World) -> None:
    refused = ["can't start new thread"]

    def soon(work: Callable[[], None]) -> None:
        if refused:
            raise RuntimeError(refused.pop())
        world.left.append(work)

    clock = ServerClock(world.ask, monotonic=lambda: world.monotonic, wall=lambda: world.wall, soon=soon)
    world.pass_by(30)
    assert clock() == world.server
    assert not world.left
    clock()
    assert len(world.left) == 1


def test_a_server_that_never_answered_is_an_error(world: World) -> None:
    world.down = True
    with pytest.raises(ConnectionError):
        world.clock()


@pytest.mark.parametrize(("off", "side"), [(HOUR, "ahead of"), (-HOUR, "behind")])
def test_a_machine_with_a_wrong_clock_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture, off: timedelta, side: str
) -> None:
    world.wall += off
    with caplog.at_level(logging.WARNING):
        clock = world.clock()
        for _ in range(3):
            world.pass_by(31)
            clock()
            world.later()
    assert [record.getMessage() for record in caplog.records] == [
        f"this machine's clock is 3600 s {side} the database clock, which decides; correct it"
    ]
    assert clock.skew() == pytest.approx(off.total_seconds())


def test_four_seconds_are_nothing_to_speak_of(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.wall += timedelta(seconds=4)
    assert world.clock().skew() == pytest.approx(4)
    assert not caplog.records


def test_work_for_later_is_done_on_a_thread() -> None:
    done = threading.Event()
    on_a_thread(done.set)
    assert done.wait(120)


def test_sqlite_keeps_the_systems_clock(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", synchronous="OFF")
    assert abs(store.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert store.skew() == 0
    store.close()


@pytest.fixture
def an_hour_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clocks, "utc_now", lambda: datetime.now(UTC) + HOUR)


def servers_time(store: Store) -> datetime:
    at: datetime = store._database.read(lambda connection: connection.scalar(text("SELECT clock_timestamp()")))
    return at


@pytest.mark.postgres
@pytest.mark.usefixtures("an_hour_ahead")
def test_a_process_an_hour_ahead_claims_renews_and_recovers_by_the_servers_time(migrated_postgres_url: str) -> None:
    store = open_store(migrated_postgres_url)
    assert abs(store.now() - servers_time(store)) < timedelta(seconds=2)
    assert store.skew() == pytest.approx(3600, abs=2)
    due = added(store, store.now())
    added(store, store.now() + timedelta(minutes=30))
    assert [run.run_id for run in store.claims.make_ready(limit=9)] == [due.run.id]
    [claim] = store.claims.start([Start(due.run.id)], worker="w", epoch=None, lease=LEASE)
    assert store.claims.renew([due.run.id], worker="w", lease=LEASE) == set()
    assert not store.claims.recover_lapsed(epoch=None, held=(), before=store.now())
    assert len(store.claims.recover_lapsed(epoch=None, held=(), before=store.now() + 2 * LEASE)) == 1
    assert store.tasks.get(due.task.tenant, due.task.id).run.state is State.RETRYING
    store.claims.settle([settlement(claim)])
    store.close()


@pytest.mark.postgres
@pytest.mark.usefixtures("an_hour_ahead")
def test_a_clock_that_is_given_is_the_one(migrated_postgres_url: str, clock: Clock) -> None:
    store = open_store(migrated_postgres_url, clock=clock)
    assert store.now() == NOON
    assert store.skew() == 0
    store.close()

"""A leap of the database's clock reaches one process before another: nobody's healthy run may end by that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from duetime.scheduler.dispatch.maintenance import LEASE_UNCHANGED_S, Maintenance
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.store.database.clock import CLOCK_SAMPLE_INTERVAL_S, Sample, ServerClock
from duetime.scheduler.task import State

from tests.builders import LEASE, NOON, added, restarted

RENEWED_EVERY_S = int(LEASE.total_seconds() / 3)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@dataclass
class Server:
    """A database server's clock, and the seconds that pass for everybody."""

    at: datetime = NOON
    passed_s: float = 0.0

    def pass_by(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)
        self.passed_s += seconds


@dataclass
class Node:
    """A process: its own idea of the server's clock, which `learn` brings up to date."""

    url: str
    server: Server
    left: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        clock = ServerClock(
            lambda: Sample(self.server.at, self.server.passed_s, self.server.passed_s),
            monotonic=lambda: self.server.passed_s,
            wall=lambda: NOON + timedelta(seconds=self.server.passed_s),
            soon=self.left.append,
        )
        self.store = open_store(self.url, clock=clock, synchronous="OFF")
        queue = MemoryQueue(lambda: self.server.passed_s * 1000)
        self.maintenance = Maintenance(self.store, queue, clock=lambda: self.server.passed_s)

    def learn(self) -> None:
        self.store.now()
        while self.left:
            self.left.pop()()


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/duetime.db"


@pytest.fixture
def nodes(url: str, server: Server) -> Iterator[tuple[Node, Node]]:
    watcher, neighbour = Node(url, server), Node(url, server)
    yield watcher, neighbour
    for node in (watcher, neighbour):
        node.store.close()


def running(store: Store) -> Claim:
    return restarted(store, added(store, store.now()))


def renew(store: Store, claim: Claim) -> None:
    assert store.claims.renew([claim.run.id], worker=claim.worker, lease=LEASE) == set()


def pass_by(server: Server, seconds: int, watcher: Node, each_second: Callable[[int], None] = lambda _: None) -> None:
    for second in range(1, seconds + 1):
        server.pass_by(1)
        watcher.learn()
        each_second(second)
        if second % 3 == 0:
            watcher.maintenance.step()


def state(node: Node, claim: Claim) -> State:
    return node.store.tasks.get(claim.task.tenant, claim.task.id).run.state


@pytest.mark.parametrize("leap", [2 * MINUTE, HOUR])
def test_a_leap_that_one_process_sees_first_ends_no_run_of_another(
    nodes: tuple[Node, Node], server: Server, leap: timedelta
) -> None:
    watcher, neighbour = nodes
    watcher.maintenance.step()
    claim = running(neighbour.store)
    server.pass_by(CLOCK_SAMPLE_INTERVAL_S)
    renew(neighbour.store, claim)
    server.at += leap

    def live(second: int) -> None:
        if second % RENEWED_EVERY_S == 0:
            renew(neighbour.store, claim)
        if second == CLOCK_SAMPLE_INTERVAL_S + RENEWED_EVERY_S:
            neighbour.learn()
        if second % 3 == 0:
            assert state(watcher, claim) is State.RUNNING

    pass_by(server, 120, watcher, live)
    assert state(watcher, claim) is State.RUNNING


def test_a_clock_that_was_set_back_ends_no_run_of_a_process_that_began_later(
    nodes: tuple[Node, Node], server: Server, url: str
) -> None:
    watcher, _ = nodes
    watcher.maintenance.step()
    server.pass_by(CLOCK_SAMPLE_INTERVAL_S)
    server.at -= HOUR
    watcher.learn()
    newcomer = Node(url, server)
    claim = running(newcomer.store)

    def live(second: int) -> None:
        if second % RENEWED_EVERY_S == 0:
            renew(newcomer.store, claim)

    pass_by(server, 300, watcher, live)
    assert state(watcher, claim) is State.RUNNING
    newcomer.store.close()


@pytest.mark.parametrize("leap", [HOUR, -HOUR])
def test_a_lease_that_nobody_renews_ends_after_a_leap_too(
    nodes: tuple[Node, Node], server: Server, leap: timedelta
) -> None:
    watcher, dead = nodes
    watcher.maintenance.step()
    server.pass_by(CLOCK_SAMPLE_INTERVAL_S)
    claim = running(dead.store)
    server.at += leap
    watcher.learn()
    enough_s = 2 * int(LEASE.total_seconds()) + int(LEASE_UNCHANGED_S) + 6  # at half speed a lease lasts twice as long
    pass_by(server, enough_s, watcher)
    assert state(watcher, claim) is State.RETRYING


def test_a_clock_that_is_true_ends_what_has_lapsed_at_the_next_look(nodes: tuple[Node, Node], server: Server) -> None:
    watcher, dead = nodes
    claim = running(dead.store)
    pass_by(server, int(LEASE.total_seconds()) + 3, watcher)
    assert state(watcher, claim) is State.RETRYING

"""Keys of the queue in Redis that were deleted or overwritten: every such damage is found and heals."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
import redis
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.rebuild import QUEUE_PROBE_INTERVAL_S, QueueMonitor
from duetime.scheduler.dispatch.stuck_runs import MAX_STUCK_S, STUCK_CHECK_INTERVAL_S, StuckRuns
from duetime.scheduler.foresight.lateness import BacklogMonitor
from duetime.scheduler.queue import QueueDamaged, ThreadUse
from duetime.scheduler.queue.constants import MIN_DAMAGE_INTERVAL_MS
from duetime.scheduler.queue.failsafe import FailsafeQueue
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.queue.redis.source import LAYOUT_VERSION
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.server.doctor.check import CheckVerdict
from duetime.server.doctor.distributed import examine_queue, queue_check
from duetime.server.runtime.readiness import readiness
from duetime.server.settings.model import Settings
from duetime.server.telemetry.notice_log import log_notice

from tests.builders import NOON, Clock, added

LEASE_MS = 60_000.0
IDLE = ThreadUse(total=4)


class Installation:
    """One process of a shared installation, on clocks that only move when told to."""

    def __init__(self, store: Store, url: str, clock: Clock) -> None:
        self.inner = RedisQueue(url, namespace=f"test-{uuid4().hex}", clock=lambda: clock().timestamp() * 1000)
        assert self.inner.begin_rebuild("test")
        assert self.inner.end_rebuild("test")
        self.key = self.inner._key
        self.server = redis.Redis.from_url(url)
        self.seconds = 1000.0
        self.store = store
        self.clock = clock
        self.queue = FailsafeQueue(self.inner, clock=self.now)
        self.monitor = self.another_monitor("me", self.queue)
        self.stuck_runs = StuckRuns(store, self.queue, Placement(), clock=self.now)
        self.settings = Settings(
            database_url="postgresql+psycopg://localhost/duetime",
            redis_url=url,
            redis_namespace=self.key.strip("{}"),
            timezone="UTC",
        )

    def now(self) -> float:
        return self.seconds

    def another_monitor(self, name: str, queue: FailsafeQueue) -> QueueMonitor:
        return QueueMonitor(
            self.store,
            queue,
            fill=lambda: None,
            placement=Placement(),
            owner=name,
            notifier=RunNotifier(observers=(log_notice,)),
            clock=self.now,
        )

    def pass_time(self, seconds: float) -> None:
        self.seconds += seconds
        self.clock.forward(seconds=seconds)

    def take(self) -> tuple[str, ...]:
        return self.queue.take("w", 4, LEASE_MS, threads=IDLE).run_ids

    def keys(self, part: str) -> list[bytes]:
        return [key for key in self.server.scan_iter(f"{self.key}:*") if f":{part}".encode() in key]

    def work_for(self, seconds: float) -> list[str]:
        """Let everything go on for some seconds; return the runs that started."""
        started: list[str] = []
        for _ in range(int(seconds / STUCK_CHECK_INTERVAL_S)):
            self.monitor.step()
            started += self.take()
            self.stuck_runs.step()
            self.pass_time(STUCK_CHECK_INTERVAL_S)
        return started


@pytest.fixture
def installation(store: Store, valkey_url: str, clock: Clock) -> Iterator[Installation]:
    made = Installation(store, valkey_url, clock)
    yield made
    made.server.close()
    made.inner.close()


def ready(installation: Installation) -> str:
    """Make a run ready, with a worker that has told of its idle threads."""
    made = added(installation.store, NOON).run.id
    Dispatcher(installation.store, installation.queue).step()
    assert installation.queue.explain(made) is not None
    return made


def delete(part: str) -> Callable[[Installation], None]:
    def damage(installation: Installation) -> None:
        assert installation.server.delete(*installation.keys(part))

    return damage


def overwrite(part: str) -> Callable[[Installation], None]:
    def damage(installation: Installation) -> None:
        for key in installation.keys(part):
            installation.server.set(key, b"\xc1garbage")

    return damage


def spoil_state(content: bytes) -> Callable[[Installation], None]:
    def damage(installation: Installation) -> None:
        installation.server.set(installation.key, content)

    return damage


def replace_state(installation: Installation) -> None:
    installation.server.delete(installation.key)
    installation.server.rpush(installation.key, "a list")


DAMAGES = {
    "the heads of a tier are deleted": delete("heads:"),
    "the runs of a class are deleted": delete("q:"),
    "the heads and the classes are deleted": lambda made: (delete("heads:")(made), delete("q:")(made)),
    "the heads of a tier are garbage": overwrite("heads:"),
    "the runs of a class are garbage": overwrite("q:"),
    "the runs are garbage": overwrite("runs"),
    "the state is garbage": spoil_state(b"\xc1garbage"),
    "the state is text": spoil_state(b"hello"),
    "the state is a number": spoil_state(b"\x05"),
    "the state is too short": spoil_state(bytes([0x91, LAYOUT_VERSION])),
    "the state is of another type": replace_state,
}


def readyz(installation: Installation) -> str:
    backlog = BacklogMonitor(installation.store)
    return readiness(
        installation.store, backlog, installation.queue.away, damage=installation.monitor.damage, verbose=False
    )


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=list(DAMAGES))
def test_a_damaged_queue_is_rebuilt_and_its_runs_start(
    installation: Installation, damage: Callable[[Installation], None], caplog: pytest.LogCaptureFixture
) -> None:
    made = ready(installation)
    damage(installation)
    with caplog.at_level(logging.WARNING):
        assert installation.work_for(MAX_STUCK_S + 4 * STUCK_CHECK_INTERVAL_S) == [made]
    (line,) = [record.getMessage() for record in caplog.records if "refilled" in record.getMessage()]
    assert line.startswith("the queue")
    assert "refilled at" in readyz(installation)
    installation.clock.forward(minutes=5)
    assert "refilled" not in readyz(installation)
    check = queue_check(installation.settings, installation.store)
    assert (check.verdict, "was refilled" in check.finding) == (CheckVerdict.NOTE, True)


@pytest.mark.parametrize(
    "threads", [ThreadUse(total=1, busy=1), ThreadUse(total=8, busy=4, withheld=4)], ids=["busy", "machine busy"]
)
def test_a_queue_is_not_rebuilt_while_its_runs_start_or_wait_for_something(
    installation: Installation, threads: ThreadUse
) -> None:
    ready(installation)
    for _ in range(20):
        installation.monitor.step()
        installation.queue.take("w", 0, LEASE_MS, threads=threads)
        installation.stuck_runs.step()
        installation.pass_time(STUCK_CHECK_INTERVAL_S)
    assert installation.monitor.damage is None
    assert installation.queue.away is None


def test_slow_checks_for_stuck_runs_take_a_fiftieth_of_the_time_and_come_every_ten_seconds_at_least(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(installation)
    assert installation.stuck_runs.step() == STUCK_CHECK_INTERVAL_S
    read, takes = installation.store.claims.ready, iter((0.1, 20.0))

    def read_slowly(**page: Any) -> list[ReadyRun]:
        installation.pass_time(next(takes))
        return read(**page)

    monkeypatch.setattr(installation.store.claims, "ready", read_slowly)
    assert [installation.stuck_runs.step() for _ in range(2)] == pytest.approx([5.0, MAX_STUCK_S])


def test_two_processes_that_find_the_same_damage_fill_the_queue_once(installation: Installation) -> None:
    installation.pass_time(MIN_DAMAGE_INTERVAL_MS / 1000)
    theirs = FailsafeQueue(installation.inner, clock=installation.now)
    other = installation.another_monitor("you", theirs)
    for queue in (theirs, installation.queue):
        queue.report(QueueDamaged("the queue is damaged"))
    assert readyz(installation) == "ok, but the queue is damaged; it is being refilled"
    installation.monitor.step()
    other.step()
    assert (installation.monitor.damage is None, other.damage) == (False, None)
    assert (installation.queue.away, theirs.away) == (None, None)


def test_a_queue_is_rebuilt_at_most_once_in_ten_seconds(installation: Installation) -> None:
    installation.pass_time(MIN_DAMAGE_INTERVAL_MS / 1000)
    repairs = set()
    for _ in range(41):
        installation.queue.report(QueueDamaged("the queue is damaged"))
        installation.monitor.step()
        repairs.add(installation.monitor.damage)
        installation.pass_time(QUEUE_PROBE_INTERVAL_S)
    assert len(repairs) == 3


def test_the_doctor_says_which_run_does_not_start(installation: Installation) -> None:
    made = ready(installation)
    assert examine_queue(installation.inner, installation.store).verdict is CheckVerdict.OK
    delete("heads:")(installation)
    installation.pass_time(MAX_STUCK_S + 1)
    assert installation.take() == ()
    check = examine_queue(installation.inner, installation.store)
    assert check.verdict is CheckVerdict.WRONG
    assert f"run {made} does not start, though nothing holds it up" in check.finding

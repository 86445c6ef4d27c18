"""A handler that does not stop at its time limit loses its run: the fence ends the attempt, another thread goes on."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue import DispatchQueue, Entry, Finish
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.redis.queue import RedisQueue
from duetime.scheduler.runtime.interrupt import CancelRequested
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.watchdog import TIME_LIMIT_GRACE_S
from duetime.scheduler.worker.worker import Worker, WorkerOptions
from duetime.server.telemetry.notice_log import log_notice

from tests.builders import NOON, TENANT, added
from tests.flow.waiting import eventually

TIME_LIMIT_S = 2.0
NOON_MS = NOON.timestamp() * 1000


class Blocked:
    """A handler whose first attempts block until `go`, deaf to every interrupt; later ones end at once."""

    def __init__(self, blocking: int = 1) -> None:
        self.go = threading.Event()
        self.begun: list[str] = []
        self.threads: list[threading.Thread] = []
        self.said: list[object] = []
        self._blocking = blocking

    def __call__(self, ctx: Context) -> Done:
        self.threads.append(threading.current_thread())
        self.begun.append(ctx.run_id)
        if len(self.begun) > self._blocking:
            return Done("went through")
        while True:
            try:
                self.go.wait(60)
                break
            except BaseException as error:  # noqa: BLE001 - a handler that cannot be stopped is what is tested
                self.said.append(error)
        self.said += [ctx.checkpoint({"page": 9}), ctx.cancelled]
        return Done("too late")

    def blocks(self, calls: int = 1) -> None:
        eventually(lambda: len(self.begun) == calls, f"{calls} begun")


class House:
    """A worker whose watch is set by hand, on a queue of either kind."""

    def __init__(self, store: Store, queue: DispatchQueue, threads: int, *handlers: Handler) -> None:
        self.at = 100.0
        self.store = store
        self.queue = queue
        self.exhausted: list[int] = []
        self.worker = Worker(
            store,
            queue,
            Handlers(handlers),
            WorkerOptions("w", threads=threads),
            notifier=RunNotifier(
                on_exhausted=lambda: self.exhausted.append(self.worker.lost_threads), observers=(log_notice,)
            ),
            monotonic=lambda: self.at,
        )

    def add(self) -> TaskRecord:
        record = added(self.store)
        self.store.claims.make_ready(limit=1)
        self.queue.put([Entry(record.run.id, NOON_MS)])
        return record

    def pass_limit_and_grace(self, heard: Callable[[], object] = lambda: True) -> None:
        """Let the time limit pass, then what handlers have to stop once those that can have `heard` of it."""
        running = self.worker._active_runs.all()
        eventually(lambda: all(held.ends_by for held in running), "the clocks of the attempts run")
        self.pass_time(TIME_LIMIT_S)
        eventually(lambda: all(held.timed_out for held in running), "they are asked to stop")
        eventually(heard, "the event loop hands it on")
        self.pass_time(TIME_LIMIT_GRACE_S)

    def pass_time(self, seconds: float) -> None:
        self.at += seconds
        self.worker.check()

    def state(self, record: TaskRecord) -> State:
        return self.store.tasks.get(TENANT, record.task.id).run.state

    def reaches(self, record: TaskRecord, state: State) -> None:
        eventually(lambda: self.state(record) is state, f"the run to be {state}")


@pytest.fixture(params=["memory", "redis"])
def queue(request: pytest.FixtureRequest) -> Iterator[DispatchQueue]:
    if request.param == "memory":
        yield MemoryQueue(lambda: NOON_MS)
        return
    redis = RedisQueue(request.getfixturevalue("valkey_url"), namespace=f"test-{uuid4().hex}", clock=lambda: NOON_MS)
    redis.begin_rebuild("w")
    redis.end_rebuild("w")
    yield redis
    redis.close()


Build = Callable[..., House]


@pytest.fixture
def build(store: Store, queue: DispatchQueue) -> Iterator[Build]:
    built: list[House] = []

    def make(work: Callable[..., object], *, threads: int = 1) -> House:
        house = House(store, queue, threads, handler("reminder", time_limit=TIME_LIMIT_S)(work))
        built.append(house)
        house.worker.start()
        return house

    yield make
    for house in built:
        house.worker.stop(timedelta(0))


def test_a_handler_that_blocks_is_timed_out_after_limit_and_grace_though_it_never_returns(build: Build) -> None:
    blocked = Blocked()
    house = build(blocked)
    record = house.add()
    blocked.blocks()
    house.pass_limit_and_grace()
    house.reaches(record, State.RETRYING)
    [attempt] = house.store.history.attempts(TENANT, record.task.id)
    assert (attempt.outcome, attempt.reason) == ("retry", "time limit of 2 s, and its thread did not stop")
    eventually(lambda: not house.worker.running, "no lease of it is renewed any more")
    eventually(lambda: not house.queue.stats().leased, "what it had reserved is free")
    blocked.go.set()


def test_another_thread_takes_the_place_of_a_lost_one(build: Build) -> None:
    blocked = Blocked()
    house = build(blocked)
    house.add()
    blocked.blocks()
    second = house.add()
    house.pass_limit_and_grace()
    house.reaches(second, State.SUCCEEDED)
    assert house.worker.lost_threads == 1
    eventually(lambda: house.queue.stats().threads["w"].lost == 1, "the stats of the queue to tell of it")
    blocked.go.set()


def test_a_lost_thread_that_returns_ends_and_what_it_says_is_discarded(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = Blocked()
    house = build(blocked)
    record = house.add()
    blocked.blocks()
    house.pass_limit_and_grace()
    house.reaches(record, State.RETRYING)
    with caplog.at_level(logging.WARNING):
        blocked.go.set()
        eventually(lambda: not house.worker.lost_threads, "it is counted no more")
    eventually(lambda: not blocked.threads[0].is_alive(), "it has ended")
    assert blocked.said[-2:] == [False, True]  # its checkpoint was refused, and it could see that the run was lost
    assert house.state(record) is State.RETRYING
    assert len([said for said in caplog.messages if "discarded" in said]) == 1
    later = house.add()
    house.reaches(later, State.SUCCEEDED)


def test_no_more_runs_start_at_once_than_there_are_threads_after_lost_ones_came_back(build: Build) -> None:
    blocked = Blocked(blocking=4)
    house = build(blocked, threads=2)
    lost = [house.add(), house.add()]
    blocked.blocks(2)
    house.pass_limit_and_grace()
    for record in lost:
        house.reaches(record, State.RETRYING)
    eventually(lambda: house.exhausted == [2], "it says that a new process would be better off")
    assert house.worker.lost_threads == 2
    blocked.go.set()
    eventually(lambda: not house.worker.lost_threads, "they have returned")
    blocked.go.clear()
    for _ in range(3):
        house.add()
    blocked.blocks(4)
    assert house.worker.running == 2
    blocked.go.set()


def test_beyond_as_many_lost_threads_as_it_has_none_is_replaced_until_one_returns(build: Build) -> None:
    blocked = Blocked(blocking=2)
    house = build(blocked)
    for number in (1, 2):
        record = house.add()
        blocked.blocks(number)
        house.pass_limit_and_grace()
        house.reaches(record, State.RETRYING)
    assert house.worker.lost_threads == 2
    waiting = house.add()
    eventually(lambda: not house.worker.running, "nothing is in hand")
    assert house.state(waiting) is State.READY
    blocked.go.set()
    house.reaches(waiting, State.SUCCEEDED)


def test_a_blocked_handler_that_someone_cancels_is_cancelled_at_its_time_limit(build: Build) -> None:
    blocked = Blocked()
    house = build(blocked)
    record = house.add()
    blocked.blocks()
    [held] = house.worker._active_runs.all()
    held.interrupt(CancelRequested)
    house.pass_limit_and_grace()
    house.reaches(record, State.CANCELLED)
    blocked.go.set()


def test_a_run_whose_lease_ran_out_here_starts_here_again_only_after_its_lost_attempt_has_ended(build: Build) -> None:
    """As after a long pause of the process: another one has recovered the run, and this one takes it again."""
    blocked = Blocked()
    house = build(blocked, threads=2)
    record = house.add()
    blocked.blocks()
    lost = house.store.claims.recover_lapsed(epoch=None, held=(), before=NOON + timedelta(minutes=1))
    house.queue.finish("another", [Finish(run_id, each.token) for run_id, each in lost.items()])
    house.store.claims.make_ready(limit=1)
    house.queue.put([Entry(record.run.id, NOON_MS)])
    eventually(lambda: house.queue.stats().delayed, "it was taken, and goes back for a while")
    assert house.state(record) is State.READY
    house.pass_limit_and_grace()
    eventually(lambda: not house.worker.running, "the attempt that lost it is ended at its time limit")
    assert (house.worker.lost_threads, house.state(record)) == (1, State.READY)
    blocked.go.set()


def test_an_async_handler_that_does_not_stop_keeps_no_thread(build: Build) -> None:
    go, heard, begun = threading.Event(), threading.Event(), list[str]()

    async def deaf(ctx: Context) -> Done:
        begun.append(ctx.run_id)
        while len(begun) == 1 and not go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                heard.set()
        return Done("went through")

    house = build(deaf)
    first = house.add()
    eventually(lambda: begun, "it runs")
    second = house.add()
    house.pass_limit_and_grace(heard.is_set)
    house.reaches(first, State.RETRYING)
    house.reaches(second, State.SUCCEEDED)
    assert house.worker.lost_threads == 0
    go.set()


def test_an_async_handler_that_blocks_the_event_loop_gets_the_others_another_one(build: Build) -> None:
    go, begun = threading.Event(), list[str]()

    async def blocking(ctx: Context) -> Done:
        begun.append(ctx.run_id)
        if len(begun) == 1:
            go.wait(60)
        return Done("went through")

    house = build(blocking)
    first = house.add()
    eventually(lambda: begun, "it blocks")
    second = house.add()
    house.pass_limit_and_grace()
    house.reaches(first, State.RETRYING)
    house.reaches(second, State.SUCCEEDED)
    assert house.worker.lost_threads == 1
    go.set()
    eventually(lambda: not house.worker.lost_threads, "the blocked loop has ended")

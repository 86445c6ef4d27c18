"""A failed attempt is logged once with its traceback, which is kept with it, however its handler is run."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.outcomes import Done, Failed, Retry
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.runtime.attempt_context import AttemptFilter
from duetime.scheduler.runtime.notifier import RunEvent, RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import Attempt, RetryPolicy, State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.watchdog import TIME_LIMIT_GRACE_S
from duetime.scheduler.worker.worker import Worker, WorkerOptions
from duetime.server.telemetry.run_log import log_runs

from tests.builders import NOON, TENANT, added, settlement, started
from tests.flow.waiting import eventually
from tests.flow.worker import isolated_handlers

NOON_MS = NOON.timestamp() * 1000
TIME_LIMIT_S = 2.0


class House:
    """A worker of one thread with one run, whose watch is set by hand."""

    def __init__(self, store: Store, item: Handler, attempts: int) -> None:
        self.at = 100.0
        self.store = store
        queue = MemoryQueue(lambda: NOON_MS)
        self.record = added(store, action=item.name, payload={}, retry=RetryPolicy(max_attempts=attempts))
        store.claims.make_ready(limit=1)
        queue.put([Entry(self.record.run.id, NOON_MS)])
        self.worker = Worker(
            store,
            queue,
            Handlers([item]),
            WorkerOptions("w", threads=1),
            notifier=RunNotifier(subscribers=(log_runs,)),
            monotonic=lambda: self.at,
        )
        self.worker.start()

    def pass_time(self, seconds: float) -> None:
        self.at += seconds
        self.worker.check()

    @property
    def found(self) -> TaskRecord:
        return self.store.tasks.get(TENANT, self.record.task.id)

    def ends_with(self, state: State) -> Attempt:
        eventually(lambda: self.found.run.state is state, f"the run to be {state}")
        [attempt] = self.store.history.attempts(TENANT, self.record.task.id)
        return attempt

    def passes_limit(self) -> None:
        eventually(lambda: any(held.ends_by for held in self.worker._active_runs.all()), "its clock runs")
        self.pass_time(TIME_LIMIT_S)


Build = Callable[..., House]


@pytest.fixture
def build(store: Store) -> Iterator[Build]:
    built: list[House] = []

    def make(item: Handler, attempts: int = 5) -> House:
        built.append(House(store, item, attempts))
        return built[-1]

    yield make
    for each in built:
        each.worker.stop(timedelta(0))


def failures(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "failed (" in record.getMessage()]


def written(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return the lines of failures, the first of which is written after its commit."""
    eventually(lambda: failures(caplog), "a line of the log")
    return failures(caplog)


@handler("bills")
def bills(_ctx: Context) -> Done:
    raise LookupError("no such customer")


@handler("bills-later")
async def bills_later(_ctx: Context) -> Done:
    await asyncio.sleep(0)
    raise LookupError("no such customer")


@pytest.mark.parametrize(
    ("item", "frame", "said"),
    [
        (bills, "in bills", "LookupError: no such customer"),
        (bills_later, "in bills_later", "LookupError: no such customer"),
        (isolated_handlers.raises, "in raises", "LookupError: no such file"),
    ],
)
def test_an_attempt_that_raises_is_logged_once_and_keeps_its_traceback(
    build: Build, caplog: pytest.LogCaptureFixture, item: Handler, frame: str, said: str
) -> None:
    caplog.handler.addFilter(AttemptFilter())
    house = build(item)
    attempt = house.ends_with(State.RETRYING)
    assert attempt.traceback is not None
    lines = attempt.traceback.splitlines()
    assert lines[1].endswith(frame)
    assert lines[-1] == said
    [record] = written(caplog)
    assert record.levelno == logging.WARNING
    assert record.exc_text == attempt.traceback
    assert f"run {house.record.run.id} ({item.name}): attempt 1 failed (failure 1 of 5, the next is at" in caplog.text
    named = {"task": house.record.task.id, "run": house.record.run.id, "attempt": 1, "action": item.name}
    assert {name: getattr(record, name) for name in named} == named


def test_the_last_attempt_is_logged_as_an_error(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    build(bills, attempts=1).ends_with(State.FAILED)
    [record] = written(caplog)
    assert (record.levelname, "failure 1 of 1, no other follows" in record.getMessage()) == ("ERROR", True)


@pytest.mark.parametrize(("outcome", "state"), [(Retry("busy"), State.RETRYING), (Failed("no"), State.FAILED)])
def test_a_failure_that_a_handler_returns_is_logged_without_a_traceback(
    build: Build, caplog: pytest.LogCaptureFixture, outcome: Retry | Failed, state: State
) -> None:
    attempt = build(handler("odd")(lambda _ctx: outcome)).ends_with(state)
    [record] = written(caplog)
    assert (attempt.traceback, record.exc_text) == (None, None)
    assert record.getMessage().endswith(outcome.reason)


def test_a_success_is_not_logged(build: Build, caplog: pytest.LogCaptureFixture) -> None:
    assert build(handler("good")(lambda _ctx: Done("went well"))).ends_with(State.SUCCEEDED).traceback is None
    assert failures(caplog) == []


@pytest.mark.parametrize("ended", [State.RETRYING, State.FAILED, State.SUCCEEDED])
def test_each_attempt_is_logged_by_how_it_ended(ended: State, store: Store, caplog: pytest.LogCaptureFixture) -> None:
    end = settlement(started(store), ended, error="why", wake_at=NOON if ended is State.RETRYING else None)
    with caplog.at_level("WARNING", logger="duetime"):
        log_runs([RunEvent(end.kind, end.run_id, settlement=end, claim=end.claim), RunEvent(EventKind.CRASHED, "r_4")])
    how = {
        State.RETRYING: ("WARNING", "failed (failure 0 of 4, the next is at 12:00:00 UTC)"),
        State.FAILED: ("ERROR", "failed (failure 0 of 4, no other follows)"),
        State.SUCCEEDED: ("WARNING", "succeeded, unverified"),
    }
    level, said = how[ended]
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        (level, f"run {end.run_id} (reminder): attempt 1 {said}: why"),
        ("WARNING", "crashed: 1 run (r_4)"),
    ]


@handler("spins-here", time_limit=TIME_LIMIT_S)
def spins_here(_ctx: Context) -> Done:
    while True:
        threading.Event().wait(0.001)


@handler("waits-for-ever", time_limit=TIME_LIMIT_S)
async def waits_for_ever(_ctx: Context) -> Done:
    await asyncio.Event().wait()
    return Done()


@pytest.mark.parametrize("item", [spins_here, waits_for_ever])
def test_a_time_limit_keeps_where_the_handler_stood(build: Build, item: Handler) -> None:
    house = build(item)
    house.passes_limit()
    attempt = house.ends_with(State.RETRYING)
    assert attempt.reason == "time limit of 2 s"
    assert attempt.traceback is not None
    assert attempt.traceback.splitlines()[1].endswith(f"in {item.fn.__name__}")


def test_a_time_limit_in_a_process_keeps_where_the_handler_stood(build: Build) -> None:
    house = build(isolated_handlers.spins)
    eventually(lambda: house.found.run.checkpoint is not None, "its process runs it")
    house.passes_limit()
    attempt = house.ends_with(State.RETRYING)
    assert attempt.traceback is not None
    assert attempt.traceback.splitlines()[1].endswith("in spins")


def test_a_handler_that_does_not_stop_keeps_where_its_thread_stands(build: Build) -> None:
    go = threading.Event()

    @handler("deaf", time_limit=TIME_LIMIT_S)
    def deaf(_ctx: Context) -> Done:
        while not go.is_set():
            try:
                go.wait(60)
            except BaseException:  # noqa: BLE001 - a handler that cannot be stopped is what is tested
                continue
        return Done()

    house = build(deaf)
    house.passes_limit()
    eventually(lambda: all(held.timed_out for held in house.worker._active_runs.all()), "it is asked to stop")
    house.pass_time(TIME_LIMIT_GRACE_S)
    attempt = house.ends_with(State.RETRYING)
    go.set()
    assert attempt.reason == "time limit of 2 s, and its thread did not stop"
    assert attempt.traceback is not None
    assert attempt.traceback.splitlines()[1].endswith("in deaf")

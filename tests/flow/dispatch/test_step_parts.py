"""Steps of the dispatcher and of maintenance: a part that fails holds up none of the others, and goes on being said."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from duetime.scheduler.dispatch.dispatcher import MAX_DISPATCH_SLEEP_S, Dispatcher
from duetime.scheduler.dispatch.maintenance import Maintenance
from duetime.scheduler.errors import DuetimeError, StoreUnavailable
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.runtime.failure_log import FAILURE_LOG_INTERVAL_S, FailureLog
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import TENANT, Clock, a_task, added, started, with_deadline

HOUR = timedelta(hours=1)

TIMERS = ["series.end_pauses", "claims.expire", "signals.end_late", "series.overtake"]
REPAIRS = [
    "claims.restart_delays",
    "tasks.forget_keys",
    "approvals.expire",
    "claims.fail_damaged",
    "claims.note_paused",
    "dependencies.repair",
    "claims.ready",
]
Break = Callable[[str, Exception], None]


class Seconds:
    """A clock that counts seconds."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def queue(clock: Clock) -> MemoryQueue:
    return MemoryQueue(lambda: clock().timestamp() * 1000)


@pytest.fixture
def broken(store: Store, monkeypatch: pytest.MonkeyPatch) -> Break:
    """Let a method of a part of the store fail."""

    def become(method: str, error: Exception) -> None:
        def fail(*_given: object, **_how: object) -> None:
            raise error

        part, _, name = method.partition(".")
        monkeypatch.setattr(getattr(store, part), name, fail)

    return become


@pytest.mark.parametrize("method", TIMERS)
def test_a_timer_that_fails_keeps_no_due_run_from_the_queue(
    store: Store, queue: MemoryQueue, clock: Clock, broken: Break, method: str
) -> None:
    store.tasks.add(*with_deadline(*a_task(), after=HOUR), actor="alice")
    clock.forward(hours=2)
    other = added(store, clock.at)
    broken(method, ValueError("a defect"))
    dispatcher = Dispatcher(store, queue)
    dispatcher.step()
    assert store.tasks.get(TENANT, other.task.id).run.state is State.READY
    assert queue.explain(other.run.id) is not None


def test_a_timer_that_goes_on_failing_is_tried_every_two_seconds_and_keeps_no_run_waiting_for_that(
    store: Store, queue: MemoryQueue, clock: Clock, broken: Break
) -> None:
    store.tasks.add(*with_deadline(*a_task(), after=HOUR, takes=HOUR), actor="alice")
    broken("claims.expire", ValueError("a defect"))
    dispatcher = Dispatcher(store, queue)
    assert dispatcher.step() == 0.0, "the run itself is due"
    assert dispatcher.step() == MAX_DISPATCH_SLEEP_S
    added(store, clock.at + timedelta(seconds=1.5))
    assert dispatcher.step() == 1.5


@pytest.mark.parametrize("method", REPAIRS)
def test_a_part_of_maintenance_that_fails_keeps_no_lost_attempt_from_its_end(
    store: Store, queue: MemoryQueue, clock: Clock, broken: Break, method: str
) -> None:
    epoch = store.runners.take_over(pid=1, endpoint="", token="")
    claim = started(store)
    broken(method, ValueError("a defect"))
    clock.forward(minutes=5)
    Maintenance(store, queue, epoch=epoch).step()
    assert store.tasks.get(TENANT, claim.task.id).run.state is State.RETRYING


def test_an_outage_of_the_database_ends_the_step(store: Store, queue: MemoryQueue, clock: Clock, broken: Break) -> None:
    added(store, clock.at)
    broken("claims.make_ready", StoreUnavailable("away"))
    broken("approvals.expire", StoreUnavailable("away"))
    for step in (Dispatcher(store, queue).step, Maintenance(store, queue).step):
        with pytest.raises(StoreUnavailable):
            step()


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.INFO):
        yield caplog


def test_a_failure_that_lasts_is_a_warning_once_a_minute(lines: pytest.LogCaptureFixture) -> None:
    clock = Seconds()
    failures, warned = FailureLog("test", clock), []
    for clock.at in range(0, 3 * int(FAILURE_LOG_INTERVAL_S), 2):
        lines.clear()
        failures.failed(DuetimeError("a defect"))
        warned += [clock.at] if lines.records else []
    assert warned == [0, FAILURE_LOG_INTERVAL_S, 2 * FAILURE_LOG_INTERVAL_S]


def test_a_failure_of_another_kind_is_a_warning_at_once(lines: pytest.LogCaptureFixture) -> None:
    failures = FailureLog("test", Seconds())
    for error in (DuetimeError("one"), DuetimeError("one"), StoreUnavailable("two"), DuetimeError("three")):
        failures.failed(error)
    assert lines.messages == ["test: one", "test: two", "test: three"]

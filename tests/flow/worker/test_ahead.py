"""While runs are brief a worker claims a few ahead of its threads, and lets go of them when it was mistaken."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.handlers import Context
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from duetime.scheduler.worker.capacity import (
    BRIEF_RUN_S,
    BRIEF_WHILE_AHEAD_S,
    MAX_LONG_RUNS,
    MAX_RUNS_AHEAD_PER_THREAD,
    MIN_RUNS_JUDGED,
    ThreadCapacity,
)
from duetime.scheduler.worker.executor import GIVEN_BACK_LATE

from tests import blank
from tests.builders import TENANT, Clock, added
from tests.flow.waiting import eventually
from tests.flow.worker.test_pools import House

THREAD_COUNT = 3
NO_TIME_S = BRIEF_RUN_S / 100


@pytest.fixture
def idle() -> ThreadCapacity:
    """Threads that have only had brief runs, all of them busy."""
    made = ThreadCapacity(THREAD_COUNT)
    for _ in range(MIN_RUNS_JUDGED):
        made.took(NO_TIME_S, alone=True)
    assert made.take_all(0) == THREAD_COUNT
    return made


def test_while_runs_are_brief_some_are_taken_ahead(idle: ThreadCapacity) -> None:
    assert idle.take_all(0) == MAX_RUNS_AHEAD_PER_THREAD * THREAD_COUNT
    assert idle.is_overcommitted
    assert idle.take_all(0) == 0


def test_more_are_taken_ahead_only_when_half_of_them_have_come_back(idle: ThreadCapacity) -> None:
    ahead = idle.take_all(0)
    idle.give(ahead // 2)
    assert idle.take_all(0) == 0
    idle.give(1)
    assert idle.take_all(0) == ahead // 2 + 1


@pytest.mark.parametrize(("seconds", "alone"), [(NO_TIME_S, False), (None, True)], ids=["with a pool", "never begun"])
def test_one_run_of_another_kind_ends_it(idle: ThreadCapacity, seconds: float | None, *, alone: bool) -> None:
    idle.took(seconds, alone=alone)
    assert idle.take_all(0) == 0
    idle.give(1)
    assert idle.take_all(0) == 1


def test_a_quarter_of_long_runs_is_borne_and_one_more_ends_it(idle: ThreadCapacity) -> None:
    for _ in range(MAX_LONG_RUNS):
        idle.took(1.0, alone=True)
    assert idle.take_all(0) == MAX_RUNS_AHEAD_PER_THREAD * THREAD_COUNT
    idle.give(MAX_RUNS_AHEAD_PER_THREAD * THREAD_COUNT)
    idle.took(1.0, alone=True)
    assert idle.take_all(0) == 0
    assert not idle.brief


@pytest.mark.parametrize(("seconds", "ahead"), [(4 * BRIEF_RUN_S, True), (2 * BRIEF_WHILE_AHEAD_S, False)])
def test_runs_that_compete_for_the_processor_are_still_brief(
    idle: ThreadCapacity, seconds: float, *, ahead: bool
) -> None:
    most = idle.take_all(0)
    for _ in range(MIN_RUNS_JUDGED):
        idle.took(seconds, alone=True)
    idle.give(most)
    assert idle.take_all(0) == (most if ahead else 0)


def test_runs_that_would_be_brief_while_some_are_taken_ahead_begin_none_of_that() -> None:
    idle = ThreadCapacity(THREAD_COUNT)
    for _ in range(MIN_RUNS_JUDGED):
        idle.took(4 * BRIEF_RUN_S, alone=True)
    assert idle.take_all(0) == THREAD_COUNT
    assert idle.take_all(0) == 0


def test_nothing_is_taken_ahead_of_threads_that_all_are_idle(idle: ThreadCapacity) -> None:
    idle.give(THREAD_COUNT)
    assert idle.take_all(0) == THREAD_COUNT


def test_thread_capacity_starts_from_zero_after_an_idle_time(idle: ThreadCapacity) -> None:
    idle.forget()
    assert idle.take_all(0) == 0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock(), synchronous="OFF")
    yield opened
    opened.close()


def test_a_run_claimed_ahead_of_lost_threads_is_handed_back_and_runs_once(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.scheduler.worker.capacity.BRIEF_RUN_S", 10.0)  # whatever the machine is doing
    brief, long = MIN_RUNS_JUDGED + 10, 12
    queue, begun, go = MemoryQueue(lambda: store.now().timestamp() * 1000), Counter[str](), threading.Event()
    slow: set[str] = set()
    house = House(store, queue)

    def act(ctx: Context) -> Done:
        begun[ctx.task_id] += 1
        if ctx.task_id in slow:
            go.wait(60)
        return Done()

    house.act = act
    tasks = [added(store).task.id for _ in range(brief + long)]
    slow.update(tasks[brief:])
    while Dispatcher(store, queue).step() <= 0:
        pass
    house.worker.start()
    eventually(lambda: any(_overtaken(store, task) for task in tasks), "something to be handed back")
    go.set()
    eventually(lambda: all(_ended(store, queue, task) for task in tasks), "all to end")
    house.stop()
    assert set(begun.values()) == {1}
    assert queue.stats().leased == 0


def _overtaken(store: Store, task_id: str) -> bool:
    return any(attempt.reason == GIVEN_BACK_LATE.reason for attempt in store.history.attempts(TENANT, task_id))


def _ended(store: Store, queue: MemoryQueue, task_id: str) -> bool:
    Dispatcher(store, queue).step()
    return store.tasks.get(TENANT, task_id).run.state is State.SUCCEEDED

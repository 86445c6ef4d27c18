"""The loop that every process of the runner shares: it sleeps, wakes, outlives failures, and ends when told."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from duetime.scheduler.dispatch.placement import LAST_CHANCE_DELAY_MS, Placement
from duetime.scheduler.dispatch.pool_registry import LAST_CHANCE
from duetime.scheduler.errors import DuetimeError, RunnerReplaced, StoreUnavailable
from duetime.scheduler.queue import Finish, Kind, Limits
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.run_records import ReadyRun
from duetime.scheduler.runtime.loop import Loop

from tests.builders import NOON, Clock
from tests.flow.waiting import eventually


def test_a_process_sleeps_until_it_is_woken() -> None:
    steps: list[int] = []
    process = Loop("test", lambda: steps.append(1))
    process.start()
    eventually(lambda: len(steps) == 1, "the first step")
    process.wake()
    eventually(lambda: len(steps) == 2, "the second step")
    assert process.stop(10)
    assert len(steps) == 2


def test_a_wake_up_during_a_step_is_not_lost() -> None:
    begun, go, steps = threading.Event(), threading.Event(), []

    def step() -> None:
        steps.append(1)
        begun.set()
        go.wait(60)

    process = Loop("test", step)
    process.start()
    begun.wait(60)
    process.wake()
    go.set()
    eventually(lambda: len(steps) == 2, "the step that was asked for during the first")
    process.stop(10)


@pytest.mark.parametrize(
    ("error", "back"),
    [
        (StoreUnavailable("the disk is full"), "test: the database is available again, on attempt 3"),
        (DuetimeError("a line is cut"), "test: recovered, on attempt 3"),
    ],
)
def test_a_failing_step_is_repeated_and_its_first_failure_and_its_end_are_logged(
    error: DuetimeError, back: str, caplog: pytest.LogCaptureFixture
) -> None:
    steps: list[int] = []

    def step() -> float:
        steps.append(1)
        if len(steps) < 3:
            raise error
        return 0.0

    process = Loop("test", step)
    with caplog.at_level(logging.INFO):
        process.start()
        eventually(lambda: len(steps) > 3, "the step after the third")
        process.stop(10)
    ours = [record.message for record in caplog.records if record.message.startswith("test: ")]
    assert ours == [f"test: {error}", back]


def test_a_process_whose_runner_was_replaced_says_so_and_ends() -> None:
    heard = threading.Event()

    def step() -> None:
        raise RunnerReplaced(1, 2)

    process = Loop("test", step, replaced=heard.set)
    process.start()
    assert heard.wait(60)
    assert process.stop(10)


def test_a_process_that_never_started_stops() -> None:
    assert Loop("test", lambda: None).stop(0)


def test_runs_on_their_last_chance_wait_for_calm_and_run_one_at_a_time_but_others_do_not() -> None:
    clock = Clock()
    queue = MemoryQueue(lambda: clock().timestamp() * 1000)
    queue.set_pool(LAST_CHANCE, Limits(Kind.SLOTS, 1))
    run = ReadyRun("r", "t", "acme", NOON, NOON, "effect")
    suspects = [replace(run, run_id=f"a{n}", crashes=2, first_ready_at=NOON - timedelta(seconds=1)) for n in range(3)]
    others = [replace(run, run_id=f"b{n}", crashes=n) for n in range(2)]
    queue.put([Placement().entry(each, NOON) for each in [*suspects, *others]])
    assert queue.take("w", 9, 1e6).run_ids == ("b0", "b1")
    clock.forward(milliseconds=LAST_CHANCE_DELAY_MS)
    (grant,) = queue.take("w", 9, 1e6).grants
    assert grant.run_id == "a0"
    queue.finish("w", [Finish("a0", grant.token)])
    assert queue.take("w", 9, 1e6).run_ids == ("a1",)

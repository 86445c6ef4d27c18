"""Async handlers share an event loop; what one of them raises ends its own attempt, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections.abc import Awaitable, Callable

import pytest
from duetime import Context, Done, State, handler, testing
from duetime.scheduler.outcomes import Retry
from duetime.scheduler.runtime.event_loop import EventLoop
from duetime.scheduler.runtime.interrupt import Interruptible, TimeLimitReached

from tests.flow.waiting import eventually
from tests.flow.worker import isolated_handlers
from tests.flow.worker.test_isolation import run


def leave() -> None:
    sys.exit(3)


def break_off() -> None:
    raise KeyboardInterrupt


async def by_itself(end: Callable[[], None]) -> Done:
    end()
    return Done()


async def by_a_task_it_awaits(end: Callable[[], None]) -> Done:
    return await asyncio.create_task(by_itself(end))


async def by_a_task_it_leaves(end: Callable[[], None]) -> Done:
    task = asyncio.create_task(by_itself(end))
    await asyncio.wait([task])
    return Done(f"went on after {type(task.exception()).__name__}")


@pytest.mark.parametrize(("end", "name", "text"), [(leave, "SystemExit", ": 3"), (break_off, "KeyboardInterrupt", "")])
@pytest.mark.parametrize("by", [by_itself, by_a_task_it_awaits, by_a_task_it_leaves])
def test_an_async_handler_that_ends_its_program_ends_its_own_attempt_alone(
    end: Callable[[], None], name: str, text: str, by: Callable[[Callable[[], None]], Awaitable[Done]]
) -> None:
    begun, go = threading.Event(), threading.Event()

    @handler("leaves", time_limit=600)
    async def leaves(_ctx: Context) -> Done:
        """End the program, as a library's parser of arguments does."""
        return await by(end)

    @handler("stays", time_limit=600)
    async def stays(_ctx: Context) -> Done:
        """Run next to it."""
        begun.set()
        await asyncio.to_thread(go.wait, 60)
        return Done("undisturbed")

    with testing.open_scheduler(handlers=[leaves, stays], run=True) as scheduler:
        beside = scheduler.schedule("beside", action="stays").record.task.id
        assert begun.wait(60)
        bad = scheduler.schedule("bad", action="leaves", retry={"max_attempts": 1}).record.task.id
        ended = scheduler.wait(bad, timeout=60).record.run
        later = scheduler.schedule("later", action="stays").record.task.id
        go.set()
        undisturbed = [scheduler.wait(task_id, timeout=60).record.run.summary for task_id in (beside, later)]
    assert undisturbed == ["undisturbed", "undisturbed"]
    went_on = by is by_a_task_it_leaves
    assert ended.state is (State.SUCCEEDED if went_on else State.FAILED)
    assert (ended.summary, ended.error) == ((f"went on after {name}", None) if went_on else (None, f"{name}{text}"))


def test_an_async_handler_that_ends_its_program_in_a_process_of_its_own_fails_as_in_a_thread() -> None:
    assert run(isolated_handlers.leaves) == Retry("SystemExit: 3")


@pytest.fixture
def loop() -> EventLoop:
    made = EventLoop()
    made.start()
    return made


async def stop() -> None:
    asyncio.get_running_loop().stop()


async def said() -> str:
    return "said"


def test_a_loop_that_a_handler_stops_goes_on(loop: EventLoop) -> None:
    for _ in range(2):
        Interruptible().wait_for(stop(), loop.loop)
        assert Interruptible().wait_for(said(), loop.loop) == "said"
    loop.stop(60)


def test_the_end_of_a_loop_stands_though_a_task_ends_the_program_in_its_last_round(loop: EventLoop) -> None:
    thread = loop._thread
    begun, go = threading.Event(), threading.Event()

    def last() -> None:
        begun.set()
        go.wait(60)
        loop.loop.call_soon(leave)  # behind the stop

    loop.loop.call_soon_threadsafe(last)
    assert begun.wait(60)
    stopping = threading.Thread(target=loop.stop, args=(60,))
    stopping.start()
    eventually(lambda: len(loop.loop._ready), "the stop is in line")  # type: ignore[attr-defined]  # asyncio's own line
    go.set()
    stopping.join(60)
    assert not thread.is_alive()


def test_a_loop_that_fails_is_replaced_and_its_coroutines_can_be_given_up(
    loop: EventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    call, begun, failed = Interruptible(), threading.Event(), loop.loop

    async def waits() -> None:
        begun.set()
        await asyncio.sleep(600)

    def fail() -> None:
        raise OSError("its selector is gone")

    raised: list[type[BaseException]] = []

    def wait() -> None:
        try:
            call.wait_for(waits(), failed)
        except TimeLimitReached as why:
            raised.append(type(why))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    assert begun.wait(60)
    with caplog.at_level(logging.ERROR):
        failed._run_once = fail  # type: ignore[attr-defined]  # asyncio's own step
        failed.call_soon_threadsafe(lambda: None)
        eventually(lambda: loop.loop is not failed and failed.is_closed(), "another takes its place")
    assert "the event loop of async handlers failed, so a new loop replaces it" in caplog.messages
    assert Interruptible().wait_for(said(), loop.loop) == "said"
    call.interrupt(TimeLimitReached)
    assert call.leave()
    waiting.join(60)
    assert raised == [TimeLimitReached]
    loop.stop(60)


def test_a_loop_that_has_ended_can_be_stopped_again(loop: EventLoop) -> None:
    loop.stop(60)
    loop.stop(60)

"""Threads of tool calls: where a call leaves the event loop, and what becomes of it when its caller goes."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import threading
from contextvars import ContextVar
from typing import Never

import pytest
from duetime.tools import threads
from duetime.tools.threads import MAX_TOOL_THREADS, ServerBusy, ToolThreads, cross, is_set_within

from tests import forked

PATIENCE_S = 30
WHO: ContextVar[str] = ContextVar("WHO", default="nobody")


def test_calls_one_after_the_other_are_made_by_one_thread() -> None:
    async def calls() -> set[int]:
        return {await cross(threading.get_ident) for _ in range(20)}

    assert len(asyncio.run(calls())) == 1


def test_calls_at_the_same_time_have_a_thread_each() -> None:
    met = threading.Barrier(MAX_TOOL_THREADS)

    async def calls() -> list[int]:
        return await asyncio.gather(*(cross(met.wait, PATIENCE_S) for _ in range(MAX_TOOL_THREADS)))

    assert sorted(asyncio.run(calls())) == list(range(MAX_TOOL_THREADS))


def test_a_call_without_a_thread_waits_until_one_is_idle() -> None:
    go, made = threading.Event(), list[str]()

    async def calls() -> None:
        busy = [asyncio.create_task(cross(go.wait, PATIENCE_S)) for _ in range(MAX_TOOL_THREADS)]
        last = asyncio.create_task(cross(made.append, "last"))
        await asyncio.sleep(0)
        assert made == []
        go.set()
        await asyncio.gather(*busy, last)

    asyncio.run(calls())
    assert made == ["last"]


def test_a_call_is_refused_while_as_many_wait_as_may_and_is_made_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    go, made = threading.Event(), list[str]()
    monkeypatch.setattr(threads, "MAX_CALLS_WAITING", 2)

    async def calls() -> None:
        busy = [asyncio.create_task(cross(go.wait, PATIENCE_S)) for _ in range(MAX_TOOL_THREADS)]
        waiting = [asyncio.create_task(cross(made.append, "waited")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(ServerBusy, match=r"2 calls wait already\. Nothing was done; repeat it later\."):
            await cross(made.append, "refused")
        go.set()
        await asyncio.gather(*busy, *waiting)
        await cross(made.append, "repeated")

    asyncio.run(calls())
    assert made == ["waited", "waited", "repeated"]


def test_a_caller_that_goes_away_neither_interrupts_the_work_nor_waits_for_it() -> None:
    begun, go, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go.wait(PATIENCE_S)
        ended.set()

    async def leaves() -> None:
        call = asyncio.create_task(cross(work))
        await asyncio.sleep(0)
        assert begun.wait(PATIENCE_S)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert not ended.is_set()

    asyncio.run(leaves())
    go.set()
    assert ended.wait(PATIENCE_S)


def test_work_whose_event_loop_has_ended_leaves_its_thread_for_others() -> None:
    test_a_caller_that_goes_away_neither_interrupts_the_work_nor_waits_for_it()
    assert asyncio.run(cross(lambda: "served")) == "served"


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        *((KeyError("x"), KeyError), (StopIteration(), RuntimeError)),
        *((SystemExit(3), RuntimeError), (KeyboardInterrupt(), RuntimeError), (asyncio.CancelledError(), RuntimeError)),
    ],
)
def test_an_exception_of_the_work_reaches_the_caller_and_ends_nothing_else(
    raised: BaseException, expected: type[Exception]
) -> None:
    def work() -> Never:
        raise raised

    async def calls() -> str:
        with pytest.raises(expected):
            await cross(work)
        return await cross(lambda: "served")

    assert asyncio.run(calls()) == "served"


def test_calls_get_a_thread_in_the_order_in_which_they_came_except_those_whose_callers_have_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "_threads", ToolThreads(1))
    go, made = threading.Event(), list[int]()

    async def calls() -> None:
        busy = asyncio.create_task(cross(go.wait, PATIENCE_S))
        await asyncio.sleep(0)
        later = [asyncio.create_task(cross(made.append, number)) for number in range(9)]
        await asyncio.sleep(0)
        later[1].cancel()
        await asyncio.sleep(0)
        go.set()
        await asyncio.gather(busy, *later, return_exceptions=True)

    asyncio.run(calls())
    assert made == [0, *range(2, 9)]


@pytest.mark.parametrize("turns", range(5))
def test_a_wait_that_is_cancelled_soon_after_its_event_ends_or_is_cancelled(turns: int) -> None:
    async def cancelled() -> None:
        event = asyncio.Event()
        wait = asyncio.create_task(is_set_within(event, PATIENCE_S))
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.0)
        event.set()
        for _ in range(turns):
            await asyncio.sleep(0.0)
        if wait.cancel():
            with pytest.raises(asyncio.CancelledError):
                await wait
        else:
            assert wait.result()

    asyncio.run(cancelled())


def test_a_wait_for_an_event_ends_at_its_time() -> None:
    assert not asyncio.run(is_set_within(asyncio.Event(), 0.001))


def in_a_process_of_its_own(program: str) -> str:
    """Return what a program prints that may use `asyncio`, `os`, `threading` and `cross`."""
    begin = "import asyncio, os, threading, time, warnings\nfrom duetime.tools.threads import cross\n"
    done = forked.run([sys.executable, "-c", begin + textwrap.dedent(program)], timeout=120)
    return done.stdout + done.stderr


def test_a_process_that_ends_waits_for_the_work_under_way() -> None:
    program = """
        begun = threading.Event()

        def work():
            begun.set()
            time.sleep(0.3)
            os.write(1, b"whole")

        async def leaves():
            call = asyncio.create_task(cross(work))
            await asyncio.sleep(0)
            begun.wait()
            call.cancel()

        asyncio.run(leaves())
    """
    assert in_a_process_of_its_own(program) == "whole"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_forked_process_has_threads_of_its_own() -> None:
    program = """
        async def served():
            async with asyncio.timeout(10):
                await cross(os.write, 1, b"served")

        asyncio.run(cross(int))
        warnings.simplefilter("ignore", DeprecationWarning)  # that a fork of a process with threads is no good idea
        child = os.fork()
        if child == 0:
            asyncio.run(served())
            os._exit(0)
        os.waitpid(child, 0)
    """
    assert in_a_process_of_its_own(program) == "served"


def test_the_work_has_the_context_of_its_caller() -> None:
    async def call() -> str:
        WHO.set("ann")
        return await cross(WHO.get)

    assert asyncio.run(call()) == "ann"

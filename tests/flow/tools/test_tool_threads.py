"""Threads of tool calls: where a call leaves the event loop, and what becomes of it when its caller goes."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar
from typing import Never

import pytest
from duetime.tools.threads import MAX_TOOL_THREADS, cross

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


@pytest.mark.parametrize(("raised", "expected"), [(KeyError("x"), KeyError), (StopIteration(), RuntimeError)])
def test_what_the_work_raises_reaches_the_caller(raised: Exception, expected: type[Exception]) -> None:
    def work() -> Never:
        raise raised

    with pytest.raises(expected):
        asyncio.run(cross(work))


def test_the_work_has_the_context_of_its_caller() -> None:
    async def call() -> str:
        WHO.set("ann")
        return await cross(WHO.get)

    assert asyncio.run(call()) == "ann"

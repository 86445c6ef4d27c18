"""A handler can be stopped from outside, and nothing but the handler is ever hit."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from duetime.scheduler.runtime.interrupt import CancelRequested, Interruptible, TimeLimitReached, WorkerStopping


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def spin(begun: threading.Event) -> str:
    begun.set()
    while True:
        time.sleep(0.001)


def test_a_call_is_stopped_where_it_is() -> None:
    call, begun = Interruptible(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call.call, lambda: spin(begun))
        begun.wait()
        call.interrupt(TimeLimitReached)
        assert isinstance(running.exception(60), TimeLimitReached)


def test_an_interrupt_before_the_call_stops_it_at_its_beginning() -> None:
    call = Interruptible()
    call.interrupt(CancelRequested)
    with pytest.raises(CancelRequested):
        call.call(lambda: pytest.fail("it began"))


def test_an_interrupt_after_the_call_hits_nothing() -> None:
    call = Interruptible()
    assert call.call(lambda: "done") == "done"
    call.interrupt(CancelRequested)
    for _ in range(1000):
        assert threading.get_ident()


def test_only_the_first_interrupt_is_raised() -> None:
    call, begun, seen = Interruptible(), threading.Event(), []

    def stubborn() -> str:
        try:
            spin(begun)
        except CancelRequested as error:
            seen.append(error)
        call.interrupt(WorkerStopping)
        return "cleaned up"

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call.call, stubborn)
        begun.wait()
        call.interrupt(CancelRequested)
        assert running.result(60) == "cleaned up"
    assert len(seen) == 1


def test_a_shielded_part_is_finished_before_the_interrupt_is_raised() -> None:
    call, begun, done = Interruptible(), threading.Event(), []

    def part() -> None:
        begun.set()
        while call.pending is None:
            time.sleep(0.001)
        done.append(True)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call.call, lambda: call.shield(part))
        begun.wait()
        call.interrupt(CancelRequested)
        assert isinstance(running.exception(60), CancelRequested)
    assert done == [True]


def test_a_handler_that_cleans_up_after_an_interrupt_may_still_use_shielded_parts() -> None:
    call, begun = Interruptible(), threading.Event()

    def work() -> str:
        try:
            return spin(begun)
        except CancelRequested:
            return call.shield(lambda: "saved")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call.call, work)
        begun.wait()
        call.interrupt(CancelRequested)
        assert running.result(60) == "saved"


class Part:
    """A shielded part that another thread or task of a call is in; it lasts until `end`."""

    def __init__(self, call: Interruptible) -> None:
        self._call = call
        self.begun, self.end, self.ended = threading.Event(), threading.Event(), threading.Event()

    def run(self) -> None:
        self._call.shield(self._last)
        self.ended.set()

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self.run)
        thread.start()
        assert self.begun.wait(60)
        return thread

    def _last(self) -> None:
        self.begun.set()
        assert self.end.wait(60)


def test_a_call_returns_while_a_thread_of_its_own_is_in_a_shielded_part() -> None:
    call = Interruptible()
    part = Part(call)

    def work() -> str:
        part.start()
        return "done"

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call.call, work)
        try:
            assert running.result(20) == "done"
        finally:
            part.end.set()
            part.ended.wait(20)
            call.interrupt(CancelRequested)  # a call that waits for an interrupt ends


def test_a_call_is_stopped_while_a_thread_of_its_own_is_in_a_shielded_part() -> None:
    call, begun = Interruptible(), threading.Event()
    part = Part(call)

    def work() -> str:
        part.start()
        begun.set()
        while not part.end.is_set():
            time.sleep(0.001)
        return "never stopped"

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(call.call, work)
        begun.wait()
        call.interrupt(CancelRequested)
        try:
            assert isinstance(running.exception(20), CancelRequested)
        finally:
            part.end.set()
        assert part.ended.wait(20), "the interrupt reached the thread, which it was not for"


def test_a_thread_that_outlives_an_interrupted_call_may_still_use_shielded_parts() -> None:
    call = Interruptible()
    assert call.call(lambda: "done") == "done"
    call.interrupt(CancelRequested)
    saved = threading.Event()
    threading.Thread(target=lambda: call.shield(saved.set), daemon=True).start()
    assert saved.wait(20)


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads switch at nearly every step, so that races happen."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_interrupts_that_race_with_the_end_of_a_call_never_reach_the_thread() -> None:
    """The thread outlives hundreds of interrupts that arrive before, in and after short calls."""
    calls: list[Interruptible] = []
    done = threading.Event()

    def work() -> int:
        stopped = 0
        while stopped < 500:
            call = Interruptible()
            calls.append(call)
            try:
                call.call(lambda: time.sleep(0.00001) if len(calls) % 2 else None)
            except CancelRequested:
                stopped += 1
        done.set()
        return stopped

    def interrupt() -> None:
        while not done.is_set():
            if calls:
                calls[-1].interrupt(CancelRequested)

    with ThreadPoolExecutor(2) as pool:
        working, interrupting = pool.submit(work), pool.submit(interrupt)
        assert working.result(60) == 500
        interrupting.result(60)


def test_an_async_handler_is_cancelled_on_its_loop_and_waited_for(loop: asyncio.AbstractEventLoop) -> None:
    call, begun, cleaned = Interruptible(), threading.Event(), []

    async def work() -> None:
        try:
            begun.set()
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: call.wait_for(work(), loop))
        begun.wait()
        call.interrupt(TimeLimitReached)
        assert isinstance(running.exception(60), TimeLimitReached)
    assert cleaned == [True]


def test_an_async_handler_that_was_stopped_before_it_began_never_begins(loop: asyncio.AbstractEventLoop) -> None:
    call = Interruptible()
    call.interrupt(CancelRequested)

    async def work() -> None:
        pytest.fail("it began")

    with pytest.raises(CancelRequested):
        call.wait_for(work(), loop)


def test_an_async_handler_that_ignores_its_cancellation_is_still_waited_for(loop: asyncio.AbstractEventLoop) -> None:
    call, begun, go = Interruptible(), threading.Event(), asyncio.Event()

    async def work() -> str:
        try:
            begun.set()
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            await go.wait()
        return "finished anyway"

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: call.wait_for(work(), loop))
        begun.wait()
        call.interrupt(CancelRequested)
        assert not running.done()
        loop.call_soon_threadsafe(go.set)
        assert running.result(60) == "finished anyway"


def test_an_async_handler_is_stopped_while_a_thread_of_its_own_is_in_a_shielded_part(
    loop: asyncio.AbstractEventLoop,
) -> None:
    call, begun = Interruptible(), threading.Event()
    part = Part(call)

    async def work() -> None:
        part.start()
        begun.set()
        await asyncio.sleep(600)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: call.wait_for(work(), loop))
        begun.wait()
        call.interrupt(CancelRequested)
        try:
            assert isinstance(running.exception(20), CancelRequested)
            assert call.blocked_loop is None, "the loop is free, and serves others"
        finally:
            part.end.set()
            call.leave()
    assert part.ended.wait(20), "the interrupt reached the thread, which it was not for"


def test_an_interrupt_stops_an_async_handler_and_not_the_task_that_it_left_in_a_shielded_part(
    loop: asyncio.AbstractEventLoop,
) -> None:
    call, began, tasks = Interruptible(), threading.Event(), []

    async def side() -> str:
        def wanted() -> str:
            began.set()
            while call.pending is None:
                time.sleep(0.001)
            return "saved"

        return call.shield(wanted)

    async def work() -> None:
        tasks.append(asyncio.create_task(side()))
        await asyncio.sleep(600)

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: call.wait_for(work(), loop))
        began.wait()
        call.interrupt(CancelRequested)
        try:
            assert isinstance(running.exception(20), CancelRequested)
        finally:
            call.leave()
    assert tasks[0].result() == "saved"


def test_an_async_handler_is_stopped_where_it_saves(loop: asyncio.AbstractEventLoop) -> None:
    call, begun, done = Interruptible(), threading.Event(), []

    def part() -> None:
        begun.set()
        while call.pending is None:
            time.sleep(0.001)
        done.append(True)

    async def work() -> None:
        try:
            call.shield(part)
        finally:
            assert call.blocked_loop is None, "the loop is free, and serves others"
        pytest.fail("it went on")

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: call.wait_for(work(), loop))
        begun.wait()
        call.interrupt(TimeLimitReached)
        assert isinstance(running.exception(60), TimeLimitReached)
    assert done == [True]

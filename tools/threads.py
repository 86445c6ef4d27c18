"""The one place where a call crosses from the server's event loop to the synchronous scheduler."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, Generic, ParamSpec, Protocol, TypeVar

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.principal import Principal
from duetime.scheduler.runtime.event_tail import LOOK_INTERVAL_S

if TYPE_CHECKING:
    from duetime.scheduler.foresight.readers.run_ends import (
        RunEnds,  # with the store, which loads after the first answer
    )

P = ParamSpec("P")
T = TypeVar("T")

MAX_TOOL_THREADS: Final = 40
"""Calls at a time; the others wait for a thread."""


MAX_CALLS_WAITING: Final = 10_000
"""Calls that wait for a thread: a client that sends and goes away leaves its call behind."""


class ServerBusy(DuetimeError):
    """As many calls wait for a thread of this process as may."""

    code = "server_busy"


async def cross(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work` on a thread and return what it returns. Raises ServerBusy before that where very many calls wait.

    A caller that goes away neither interrupts the work midway nor waits for it: the thread finishes alone.
    """
    call = _Call(partial(copy_context().run, work, *args, **kwargs))
    _threads.start(call)
    return await call.future


class ThreadWork(Protocol):
    """Work for a thread: `run` does it, and `answer` is called once the thread is free for others. Neither raises."""

    def run(self) -> None: ...

    def answer(self) -> None: ...


def begin(work: ThreadWork) -> None:
    """Begin work on a thread, and wait for nothing. Raises ServerBusy as `cross` does."""
    _threads.start(work)


class Crossing(Protocol):
    """Carries work out on a thread, as `cross` does."""

    async def __call__(self, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...


async def is_set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait for an event, for so many seconds at most; return whether it is set.

    `asyncio.wait_for` of Python 3.11 loses a cancel that comes in the same turn of the loop as the event.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def wait_for_end(ends: RunEnds, task_id: str, seconds: float, by: Principal, cross: Crossing = cross) -> None:
    """Return when the current run of a task has ended, or after so many seconds. No thread waits for it.

    `cross` carries out its looks. Raises TaskNotFound.
    """
    loop, woken = asyncio.get_running_loop(), asyncio.Event()
    ends_at = loop.time() + seconds

    def wake() -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it the wait
            loop.call_soon_threadsafe(woken.set)

    with ends.end_of(task_id, wake, by=by) as end:
        while not await cross(end.has_come):
            while not woken.is_set():
                if (left := ends_at - loop.time()) <= 0:
                    return
                if not await is_set_within(woken, min(left, LOOK_INTERVAL_S)):
                    await cross(ends.changes.look)
            woken.clear()


def finish_work(seconds: float) -> bool:
    """Wait until no thread is at work, for so many seconds at most; return whether none is."""
    return _threads.finish(seconds)


def work_under_way() -> bool:
    """Whether a thread is at work still, for which the end of this process would wait."""
    return _threads.busy


class _Call(Generic[T]):
    """Work for a thread, and the future on whose event loop somebody waits for it."""

    def __init__(self, work: Callable[[], T]) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._work = work
        self._answer: Callable[[], object] = self.future.cancel

    def run(self) -> None:
        """Do the work, unless its caller has gone before it began."""
        if self.future.cancelled():
            return
        try:
            self._answer = partial(self.future.set_result, self._work())
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller gets it
            self._answer = partial(self.future.set_exception, _bearable(error))

    def answer(self) -> None:
        """Wake the caller, if it and its event loop are still there."""
        with suppress(RuntimeError):
            self.future.get_loop().call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if not self.future.done():
            self._answer()


def _bearable(error: BaseException) -> Exception:
    """Return an error that a future takes and that ends this call alone: a SystemExit would end the event loop."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    found = RuntimeError(repr(error))
    found.__cause__ = error
    return found


class ToolThreads:
    """Threads that carry out calls. The one that was busy last is taken first: its data are in the processor's cache.

    AnyIO's way there and back takes two turns of the event loop more, and twice the CPU.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.reset()

    def reset(self) -> None:
        """Begin without threads: a forked process has none of them."""
        self._lock = threading.Lock()
        self._all_idle = threading.Condition(self._lock)
        self._threads = 0
        self._idle: list[SimpleQueue[ThreadWork]] = []
        self._waiting: deque[ThreadWork] = deque()

    def finish(self, seconds: float | None = None) -> bool:
        """Wait for the work under way: the end of a process interrupts none midway, though its caller has gone.

        Returns False after so many `seconds`, if any are given.
        """
        with self._all_idle:
            return self._all_idle.wait_for(lambda: not self.busy, seconds)

    @property
    def busy(self) -> bool:
        """Whether a thread is at work."""
        return len(self._idle) < self._threads

    def start(self, call: ThreadWork) -> None:
        """Give a call to an idle thread, to a new one, or to the next that becomes idle. Raises ServerBusy."""
        with self._lock:
            if not self._idle and self._threads == self._most:
                if len(self._waiting) >= MAX_CALLS_WAITING:
                    raise ServerBusy(f"{MAX_CALLS_WAITING:,} calls wait already. Nothing was done; repeat it later.")
                self._waiting.append(call)
                return
            inbox = self._idle.pop() if self._idle else self._new_thread()
        inbox.put(call)

    def _new_thread(self) -> SimpleQueue[ThreadWork]:
        inbox: SimpleQueue[ThreadWork] = SimpleQueue()
        threading.Thread(target=self._serve, args=(inbox,), name="duetime-tool", daemon=True).start()
        self._threads += 1
        return inbox

    def _serve(self, inbox: SimpleQueue[ThreadWork]) -> None:
        while True:
            call = inbox.get()
            call.run()
            self._next(inbox)  # before the answer: whoever calls again then finds this thread
            call.answer()
            del call

    def _next(self, inbox: SimpleQueue[ThreadWork]) -> None:
        with self._lock:
            if self._waiting:
                inbox.put(self._waiting.popleft())
            else:
                self._idle.append(inbox)
                if not self.busy:
                    self._all_idle.notify_all()


_threads = ToolThreads(MAX_TOOL_THREADS)
atexit.register(_threads.finish)
if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_threads.reset)

"""Stopping a handler from outside: an exception raised in its thread, at most once, and only while it is in there.

An interrupt that arrived a moment late would hit whatever the thread does next, and kill it. So the region that can be
interrupted starts and ends inside the call. Whoever pops the only ticket decides: the thread itself, when it is done,
or one interrupter, which the thread then waits for. A blocking call in C is not interrupted until it returns.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupt(BaseException):
    """Raised in a handler to stop it. Not an Exception, so that a handler does not take it for one of its own."""


class TimeLimitReached(Interrupt):
    """The attempt took longer than its handler's time limit."""


class CancelRequested(Interrupt):
    """Someone asked to stop this run, or the attempt does not own it any more."""


class ReservationLost(Interrupt):
    """The queue does not know its reservation any more, so others may use those pools: the run goes back."""


class WorkerStopping(Interrupt):
    """The process ends and the grace period is over: the run goes back, and is started again elsewhere."""


class Interruptible:
    """One call that may be interrupted once, from any thread, by the first who asks."""

    def __init__(self) -> None:
        self.wanted: type[Interrupt] | None = None
        self._ticket: list[Callable[[type[Interrupt]], object]] = []
        self._sent = False
        self._waiting: threading.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def interrupt(self, why: type[Interrupt]) -> None:
        """Raise `why` in the call, at its beginning if it has not begun; nothing happens when it has ended."""
        if self.wanted is None:
            self.wanted = why
        try:
            send = self._ticket.pop()
        except IndexError:
            return
        send(self.wanted)
        self._sent = True

    def call(self, fn: Callable[[], T]) -> T:
        """Run `fn` on this thread. What it returned counts, even when an interrupt crossed it at the very end."""
        thread = threading.get_ident()
        returned: list[T] = []
        try:
            try:
                self._arm(lambda why: _raise_in(thread, why))
                returned.append(fn())
            finally:
                self._disarm(thread)
        except Interrupt:
            if not returned:
                raise
        return returned[0]

    def shield(self, fn: Callable[[], T]) -> T:
        """Run `fn`, a part of the call that must not be left half done, and let an interrupt wait until its end."""
        try:
            send = self._ticket.pop()
        except IndexError:
            while self.wanted is not None and not self._sent:
                time.sleep(0.0005)  # it is raised here, before `fn`
            return fn()
        try:
            return fn()
        finally:
            self._arm(send)

    def hand_on(self, fn: Callable[[], T], send: Callable[[type[Interrupt]], object]) -> T:
        """Run `fn`, which waits for a call in another process; an interrupt goes there by `send`, and not into `fn`."""
        self._arm(send)
        try:
            return fn()
        finally:
            self._ticket.clear()

    def wait_for(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> T:
        """Run `coroutine` on the loop of another thread until it has really ended; an interrupt cancels it there."""
        self._waiting = ended = threading.Event()
        self._loop = loop
        tasks: list[asyncio.Task[T]] = []

        def begin() -> None:
            tasks.append(task := loop.create_task(coroutine))
            task.add_done_callback(lambda _: ended.set())
            try:
                self._arm(lambda _why: loop.call_soon_threadsafe(cancel))
            except Interrupt:
                cancel()

        def cancel() -> None:
            self._loop = None
            tasks[0].cancel()

        loop.call_soon_threadsafe(begin)
        ended.wait()
        self._ticket.clear()
        if self.wanted is not None and (not tasks or not tasks[0].done() or tasks[0].cancelled()):
            raise self.wanted
        return tasks[0].result()

    @property
    def blocked_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop of a coroutine that was interrupted, as long as the interrupt has not got through to it."""
        return self._loop if self._sent else None

    def leave(self) -> bool:
        """Let the thread go that waits for a coroutine, though it has not ended; False when the call needs its thread.

        Only after an interrupt, which the thread then raises.
        """
        if self._waiting is None:
            return False
        self._waiting.set()
        return True

    def _arm(self, send: Callable[[type[Interrupt]], object]) -> None:
        self._ticket.append(send)
        if self.wanted is not None and self._take_ticket():
            self._sent = True
            raise self.wanted

    def _disarm(self, thread: int) -> None:
        if not self._take_ticket():
            while not self._sent:
                time.sleep(0.0005)
            _raise_in(thread, None)

    def _take_ticket(self) -> bool:
        try:
            self._ticket.pop()
        except IndexError:
            return False
        return True


def _raise_in(thread: int, why: type[Interrupt] | None) -> None:
    """Set the exception that a thread raises at its next step in Python; None takes a pending one back."""
    error = ctypes.py_object(why) if why is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)

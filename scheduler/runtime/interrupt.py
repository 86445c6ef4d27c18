"""Interrupts: an exception raised in a handler's thread, at most once, and only while the handler runs.

An interrupt that arrived a moment late would hit, and kill, the worker's own code. So the interruptible region starts
and ends inside the call. A single ticket decides: the thread pops it at its end, or one interrupter pops it, and the
thread then waits for that interrupt. A blocking call in C is not interrupted until it returns.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupt(BaseException):
    """Raised in a handler to stop it. Not an Exception, so that a handler does not take it for one of its own."""


class TimeLimitReached(Interrupt):
    """The attempt took longer than its handler's time limit."""


class CancelRequested(Interrupt):
    """A cancel was requested, or the attempt no longer owns its run."""


class ReservationLost(Interrupt):
    """The queue lost the reservation, so other runs may use those pools: the run goes back."""


class WorkerStopping(Interrupt):
    """The process stops and the grace period is over: the run goes back, and starts again elsewhere."""


class Interruptible:
    """One call that may be interrupted once, from any thread; the first interrupt wins."""

    def __init__(self) -> None:
        self.pending: type[Interrupt] | None = None
        self._ticket: list[Callable[[type[Interrupt]], object]] = []
        self._sent = False
        self._waiting: threading.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_own: Callable[[], bool] = _is_nobodys
        """Whether the caller is the thread or task that an interrupt stops, and not one that the call started."""

    def interrupt(self, why: type[Interrupt]) -> None:
        """Raise `why` in the call, at its beginning if it has not begun; does nothing after its end."""
        if self.pending is None:
            self.pending = why
        try:
            send = self._ticket.pop()
        except IndexError:
            return
        send(self.pending)
        self._sent = True

    def call(self, fn: Callable[[], T]) -> T:
        """Run `fn` on this thread. Its return value counts, even if an interrupt arrives at the very end."""
        thread = threading.get_ident()
        returned: list[T] = []
        self._is_own = lambda: threading.get_ident() == thread
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
        """Run `fn`, which must not stop half done; an interrupt waits until its end.

        On a thread or task that the call has started, `fn` just runs: no interrupt is raised there.
        """
        if not self._is_own():
            return fn()
        try:
            send = self._ticket.pop()
        except IndexError:
            while self.pending is not None and not self._sent:
                time.sleep(0.0005)  # the interrupt is raised here, before `fn`
            return fn()
        try:
            return fn()
        finally:
            self._arm(send)

    def hand_on(self, fn: Callable[[], T], send: Callable[[type[Interrupt]], object]) -> T:
        """Run `fn`, which waits for a call in another process; an interrupt goes there by `send` instead."""
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
            self._is_own = lambda: _current_task() is task
            task.add_done_callback(lambda _: ended.set())
            try:
                self._arm(lambda _why: _call_on(loop, cancel))
            except Interrupt:
                cancel()

        def cancel() -> None:
            self._loop = None
            tasks[0].cancel()

        loop.call_soon_threadsafe(begin)
        ended.wait()
        self._ticket.clear()
        if self.pending is not None and (not tasks or not tasks[0].done() or tasks[0].cancelled()):
            raise self.pending from _cancellation(tasks)
        return tasks[0].result()

    @property
    def blocked_loop(self) -> asyncio.AbstractEventLoop | None:
        """The loop of an interrupted coroutine that has not ended, else None."""
        return self._loop if self._sent else None

    def leave(self) -> bool:
        """Release the thread that waits for a coroutine which has not ended; False when the call needs its thread.

        Only after an interrupt, which the thread then raises.
        """
        if self._waiting is None:
            return False
        self._waiting.set()
        return True

    def _arm(self, send: Callable[[type[Interrupt]], object]) -> None:
        self._ticket.append(send)
        if self.pending is not None and self._take_ticket():
            self._sent, self._loop = True, None  # a loop that gets here is not blocked
            raise self.pending

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


def _is_nobodys() -> bool:
    return False


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # this thread runs no loop
        return None


def _call_on(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop failed, and is closed; its coroutines end with it
        loop.call_soon_threadsafe(call)


def _cancellation(tasks: Sequence[asyncio.Task[Any]]) -> BaseException | None:
    """Return the exception that ended a cancelled coroutine, whose traceback says where."""
    try:
        return tasks[0].exception() if tasks and tasks[0].done() else None
    except asyncio.CancelledError as cancelled:
        return cancelled


def _raise_in(thread: int, why: type[Interrupt] | None) -> None:
    """Set the exception that a thread raises at its next Python step; None clears a pending one."""
    error = ctypes.py_object(why) if why is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)

"""The shutdown of a serving process: begun by a signal or the end of input, and bounded in time."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Self

STOPS = (signal.SIGTERM, signal.SIGINT)
FORCED_EXIT_DELAY_S = 2.0
"""Seconds beyond the time given after which the process ends whatever still holds it."""

log = logging.getLogger(__name__)


def on_loop(work: Callable[[], None]) -> Callable[[], None]:
    """Return what calls `work` on the event loop that runs now, from any thread and from signal handlers."""
    loop = asyncio.get_running_loop()

    def call() -> None:
        with suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(work)

    return call


class Shutdown:
    """The end of a serving process: begun by a signal or by its input, and bounded in time."""

    def __init__(self, seconds: float) -> None:
        self.code = 0
        self._limit = seconds + FORCED_EXIT_DELAY_S
        self._begun = threading.Event()
        self._stop: Callable[[], None] = lambda: None
        self._given_up = threading.Timer(self._limit, self._give_up)
        self._given_up.daemon = True

    def on_begin(self, stop: Callable[[], None]) -> None:
        """Call `stop` when the shutdown begins; at once if it has begun."""
        self._stop = stop
        if self._begun.is_set():
            stop()

    def begin(self, why: str, *, code: int = 0) -> None:
        """Begin the shutdown, after which the process exits with `code`; only the first call counts."""
        if self._begun.is_set():
            return
        self.code = code
        self._begun.set()
        log.info("stopping: %s", why)
        self._given_up.start()
        self._stop()

    def _give_up(self) -> None:
        log.warning("shutdown took longer than %g s; exiting without waiting", self._limit)
        _leave(self.code)

    def _signalled(self, number: int) -> None:
        if self._begun.is_set():
            _leave(128 + number)
        self.begin(signal.Signals(number).name)

    def __enter__(self) -> Self:
        self._handlers = _installed(self._signalled)
        self._handlers.__enter__()
        return self

    def __exit__(self, *details: object) -> None:
        self._handlers.__exit__(None, None, None)
        if details[0] is None:
            self._given_up.cancel()  # all has stopped, so what called this process may go on
            if _others_alive():
                _leave(self.code)


@contextmanager
def _installed(handler: Callable[[int], None]) -> Iterator[None]:
    """Handle the stop signals inside the block; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ear, bell = socket.socketpair()
    bell.setblocking(False)
    before = {number: signal.signal(number, _nothing) for number in STOPS}
    rung = signal.set_wakeup_fd(bell.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(ear, handler), name="duetime-signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(rung)
        for number, previous in before.items():
            signal.signal(number, previous)
        bell.close()  # ends the listener


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Stand in for a handler: with none, the signal would end the process."""


def _listen(ear: socket.socket, handler: Callable[[int], None]) -> None:
    """Call `handler` for each signal. The system may hand one to any thread, and a main thread that waits sleeps on."""
    with ear:
        while numbers := ear.recv(16):
            for number in numbers:
                if number in STOPS:
                    handler(number)


def _others_alive() -> bool:
    """Whether the interpreter would wait for a thread: a stuck one must not keep the process alive."""
    return any(thread is not threading.main_thread() and not thread.daemon for thread in threading.enumerate())


def _leave(code: int) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)

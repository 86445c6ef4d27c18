"""The shutdown of a serving process: begun by its first sign, shortened by later ones, and bounded in time.

Hosts end their servers with several signs in a row: the end of input and SIGTERM 2 seconds later, or SIGINT and SIGTERM
at once. Running runs have to be handed back in between.
"""

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
from dataclasses import dataclass
from types import FrameType
from typing import Self

from duetime.tools.threads import finish_work, work_under_way

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
FORCED_EXIT_DELAY_S = 2.0
"""Seconds beyond the time given after which the process ends whatever still holds it."""

CALL_END_GRACE_S = 1.0
"""Seconds that calls get to end whose answers nobody awaits any more, before what they use is closed."""

HURRIED_EXIT_DELAY_S = 1.5
"""Seconds after a further sign; hosts kill their servers 2 seconds after it, or sooner."""

log = logging.getLogger(__name__)


def on_loop(work: Callable[[], None]) -> Callable[[], None]:
    """Return what calls `work` on the event loop that runs now, from any thread and from signal handlers."""
    loop = asyncio.get_running_loop()

    def call() -> None:
        with suppress(RuntimeError):  # the loop has ended already
            loop.call_soon_threadsafe(work)

    return call


def _do_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """The three steps in which a process ends.

    `begin` starts the hand-back of what runs and returns at once, `hurry` shortens it, `close` waits for it and closes
    everything.
    """

    begin: Callable[[], None] = _do_nothing
    hurry: Callable[[], None] = _do_nothing
    close: Callable[[], None] = _do_nothing


NOTHING_TO_END = ProcessEnd()


class Shutdown:
    """The end of a serving process: begun by a signal or by its input, and bounded in time.

    A later signal shortens it: `hurry` is called, at once if the shutdown had begun before `on_hurry`.
    """

    def __init__(self, seconds: float) -> None:
        self.code = 0
        self._limit = seconds + FORCED_EXIT_DELAY_S
        self._begun = threading.Event()
        self._hurried = threading.Event()
        self._stop: Callable[[], None] = lambda: None
        self._hurry: list[Callable[[], None]] = []
        self._given_up = self._forced_exit(self._limit)

    def on_begin(self, stop: Callable[[], None]) -> None:
        """Call `stop` when the shutdown begins; at once if it has begun."""
        self._stop = stop
        if self._begun.is_set():
            stop()

    def on_hurry(self, hurry: Callable[[], None]) -> None:
        """Call `hurry` too at the next sign after the first; at once if it came already."""
        self._hurry.append(hurry)
        if self._hurried.is_set():
            hurry()

    def begin(self, why: str, *, code: int = 0) -> None:
        """Begin the shutdown, after which the process exits with `code`; only the first call counts."""
        if self._begun.is_set():
            return
        self.code = code
        self._begun.set()
        log.info("stopping: %s", why)
        self._given_up.start()
        self._stop()

    def close(self, ends: ProcessEnd) -> None:
        """Close everything once the calls under way have ended, since each may be about to write."""
        finish_work(0 if self._hurried.is_set() else CALL_END_GRACE_S)
        ends.close()

    def _shorten(self, why: str) -> None:
        """Hand back what runs without waiting any longer; only the first call counts."""
        if self._hurried.is_set():
            return
        self._hurried.set()
        log.info("stopping sooner: %s", why)
        self._given_up.cancel()
        self._given_up = self._forced_exit(HURRIED_EXIT_DELAY_S)
        self._given_up.start()
        for hurry in self._hurry:
            hurry()

    def _forced_exit(self, seconds: float) -> threading.Timer:
        timer = threading.Timer(seconds, self._give_up, (seconds,))
        timer.daemon = True
        return timer

    def _give_up(self, seconds: float) -> None:
        log.warning("shutdown took longer than %g s; exiting without waiting", seconds)
        _leave(self.code)

    def _signalled(self, number: int) -> None:
        name = signal.Signals(number).name
        if self._begun.is_set():
            self._shorten(name)
        else:
            self.begin(name)

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
    receiver, wakeup_socket = socket.socketpair()
    wakeup_socket.setblocking(False)
    before = {number: signal.signal(number, _nothing) for number in STOP_SIGNALS}
    previous_fd = signal.set_wakeup_fd(wakeup_socket.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_listen, args=(receiver, handler), name="duetime-signals", daemon=True).start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous_fd)
        for number, previous in before.items():
            signal.signal(number, previous)
        wakeup_socket.close()  # ends the listener


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Stand in for a handler: with none, the signal would end the process."""


def _listen(receiver: socket.socket, handler: Callable[[int], None]) -> None:
    """Call `handler` for each signal. The system may hand one to any thread, and a main thread that waits sleeps on."""
    with receiver:
        while numbers := receiver.recv(16):
            for number in numbers:
                if number in STOP_SIGNALS:
                    handler(number)


def _others_alive() -> bool:
    """Whether the interpreter would wait for a thread: a stuck one must not keep the process alive."""
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    return work_under_way() or any(not thread.daemon for thread in others)


def _leave(code: int) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.flush()
    os._exit(code)

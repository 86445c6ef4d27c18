"""Stands in for `sys.stdout`: what handlers print becomes log lines, all else is printed as before.

One object serves all threads: the attempt of the printing thread or coroutine decides. Nothing of a handler reaches the
stream below, which may carry a protocol.
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterable
from typing import Any, TextIO, cast

from duetime.scheduler.runtime.attempt_context import PRINT_LOGGER, current_attempt, printed


class PrintCapture:
    """A text stream over another one; what it does not define itself is that of the other."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._logging = threading.local()

    def write(self, text: str) -> int:
        """Log what a handler prints; a log handler that prints the line again does so on the stream below."""
        if getattr(self._logging, "now", False):
            return self._stream.write(text)
        self._logging.now = True
        try:
            captured = printed(text)
        finally:
            self._logging.now = False
        return len(text) if captured else self._stream.write(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts."""
        for line in lines:
            self.write(line)

    def isatty(self) -> bool:
        """Whether a person reads it: no log is a terminal."""
        return current_attempt() is None and self._stream.isatty()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def capture_prints() -> None:
    """Capture what handlers print in this process, from now on."""
    if sys.stdout is not None and not prints_are_captured():
        sys.stdout = cast("TextIO", PrintCapture(sys.stdout))


def capture_prints_of_program() -> None:
    """Capture what handlers print in a program with loggers of its own: it is logged whatever their level."""
    capture_prints()
    log = logging.getLogger(PRINT_LOGGER)
    if not log.isEnabledFor(logging.INFO):
        log.setLevel(logging.INFO)


def prints_are_captured() -> bool:
    """Whether `capture_prints` was called, and no other code has replaced `sys.stdout` since."""
    return isinstance(sys.stdout, PrintCapture)

"""A lock between processes, which the operating system releases however its holder dies."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

_held: set[tuple[int, str]] = set()
_registry = threading.Lock()


class FileLock:
    """An exclusive lock on a file of its own.

    It is a POSIX record lock: children do not inherit it. The system would grant it to the same process twice, and
    release it when any descriptor of the file is closed. So holders in one process are kept apart here.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; never waits. Raises OSError when the file cannot be made or locked."""
        with _registry:
            if self._descriptor is not None or self._mark in _held:
                return self._descriptor is not None
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
            locked = False
            try:
                locked = _lock(descriptor)
            finally:
                if not locked:
                    os.close(descriptor)
            if locked:
                self._descriptor = descriptor
                _held.add(self._mark)
            return locked

    def release(self) -> None:
        with _registry:
            if self._descriptor is not None:
                _held.discard(self._mark)
                os.close(self._descriptor)
                self._descriptor = None

    @property
    def _mark(self) -> tuple[int, str]:
        """The process and the file that it locks: a forked child inherits the set, but not the locks."""
        return os.getpid(), os.path.realpath(self._path)


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _lock(descriptor: int) -> bool:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        return True

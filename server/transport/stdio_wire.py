"""The wire of stdio: stdin and stdout of this process, reserved for the protocol.

After the claim, file descriptor 0 is empty and 1 is stderr, for good. Prints of a handler, a library or a child
process, at import or at exit, never reach the protocol. Reading and writing have threads of their own that may be
abandoned. A client that neither writes nor reads cannot delay the end of the process.
"""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import anyio
from duetime.server.protocol.refusals import shortened
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

MAX_LINES_UNWRITTEN = 1_000
MAX_BYTES_UNWRITTEN = 16 * 1024 * 1024
"""Answers that wait for the client to read them; while there are more, no further request is read."""

_MAX_BYTES_AT_ONCE = 4096
"""Of a line: a pipe that takes anything takes so many at once."""

_ROOM_CHECK_INTERVAL_S = 0.05
_UNANSWERED = "subscriptions/listen"
_STDIN_FD, _STDOUT_FD, _STDERR_FD = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Wire:
    """Two file descriptors for the protocol only."""

    incoming: int
    outgoing: int

    @classmethod
    def claim(cls) -> Wire:
        """Take stdin and stdout. Call it first, before other code is imported."""
        with suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
        wire = cls(os.dup(_STDIN_FD), os.dup(_STDOUT_FD))
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, _STDIN_FD)
        try:
            os.dup2(_STDERR_FD, _STDOUT_FD)
        except OSError:  # started without a stderr
            os.dup2(nothing, _STDOUT_FD)
        os.close(nothing)
        return wire


class Pending:
    """The unanswered requests, so that the end of input does not cut them off. Thread-safe."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._unanswered = Counter[str | int]()
        self._changed = asyncio.Event()
        self._is_awaited = False

    def asked(self, message: JSONRPCMessage) -> None:
        """Note a request, or that the client no longer waits for the answer to one."""
        if isinstance(message, JSONRPCRequest) and message.method != _UNANSWERED:
            with self._lock:
                self._unanswered[message.id] += 1
        elif isinstance(message, JSONRPCNotification) and message.method == "notifications/cancelled":
            request_id = (message.params or {}).get("requestId")
            if isinstance(request_id, str | int):
                self._set(request_id, 0)

    def waits_for(self, request_id: str | int) -> bool:
        """Whether the client waits for the answer to a request."""
        return request_id in self._unanswered

    def answered(self, request_id: str | int) -> None:
        """Note an answer; of requests with the same id each has its own."""
        with self._lock:
            self._set(request_id, self._unanswered[request_id] - 1)

    def _set(self, request_id: str | int, count: int) -> None:
        self._unanswered[request_id] = count
        if count <= 0:
            del self._unanswered[request_id]
        if self._is_awaited:
            with suppress(RuntimeError):  # the loop has ended, and with it the wait
                self._loop.call_soon_threadsafe(self._changed.set)

    def forget_all(self) -> None:
        """Wait for no answer any longer. Call it on the event loop."""
        with self._lock:
            self._unanswered.clear()
        self._changed.set()

    async def drained(self, seconds: float) -> None:
        """Return when every request is answered, or after `seconds`."""
        with self._lock:
            self._is_awaited = True
        with anyio.move_on_after(seconds):
            while self._unanswered:
                self._changed.clear()
                await self._changed.wait()


class ClosedAtExit(ABC):
    """A stream of the SDK, which closes it at the end of a block."""

    @abstractmethod
    async def aclose(self) -> None: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Outgoing(ClosedAtExit):
    """The messages to the client, as the SDK's WriteStream. A thread writes those that the client is slow to read."""

    def __init__(self, wire: Wire) -> None:
        self.pending = Pending()
        self._file = wire.outgoing
        self._takes_more = _readiness(wire.outgoing)
        self._unwritten: deque[bytes | None] = deque()
        self._unwritten_bytes = 0
        self._added = threading.Condition()
        self._thread = threading.Thread(target=self._write, name="duetime-stdout", daemon=True)
        self._thread.start()

    async def send(self, item: SessionMessage, /) -> None:
        if not self._thread.is_alive():
            raise anyio.BrokenResourceError
        while not self.has_room:  # noqa: ASYNC110 - a thread drains it; a client that reads never waits
            await anyio.sleep(_ROOM_CHECK_INTERVAL_S)
        self.put(item.message)

    @property
    def has_room(self) -> bool:
        """Whether further answers may wait for the client to read them; True too once it is gone."""
        if len(self._unwritten) <= MAX_LINES_UNWRITTEN and self._unwritten_bytes <= MAX_BYTES_UNWRITTEN:
            return True
        return not self._thread.is_alive()

    def wait_for_room(self, has_ended: Callable[[], bool]) -> None:
        """Return when there is room, or the client `has_ended` its requests. Call it on a thread."""
        while not (self.has_room or has_ended()):
            with self._added:
                self._added.wait_for(lambda: self.has_room, _ROOM_CHECK_INTERVAL_S)

    def put(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCError):
            message = message.model_copy(update={"error": shortened(message.error)})
        self.put_line(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        if isinstance(message, JSONRPCResponse | JSONRPCError) and message.id is not None:
            self.pending.answered(message.id)

    def put_line(self, message: bytes) -> None:
        """Write a message at once if that takes no wait, else when its turn comes; drop it if the client is gone.

        Thread-safe.
        """
        with self._added:
            if self._thread.is_alive() and (rest := self._left_of(message + b"\n")):
                self._unwritten.append(rest)
                self._unwritten_bytes += len(rest)
                self._added.notify_all()

    def _left_of(self, line: bytes) -> bytes:
        """Write what a wait is not needed for, and return the rest: a pipe that takes anything takes a short line."""
        if self._unwritten or len(line) > _MAX_BYTES_AT_ONCE:
            return line
        with suppress(OSError):  # the thread will meet it again, and end
            return line[os.write(self._file, line) :] if self._takes_more() else line
        return line

    async def aclose(self) -> None:
        """Let the thread write the queued messages."""
        with self._added:
            self._unwritten.append(None)
            self._added.notify()

    def flush(self, seconds: float) -> None:
        """Wait until everything is written, at most `seconds`; the stream must be closed before."""
        self._thread.join(seconds)

    def _write(self) -> None:
        with suppress(OSError):  # the client is gone; its end of input ends us too
            while (line := self._first()) is not None:
                while line:
                    line = line[os.write(self._file, line) :]
                self._written()

    def _written(self) -> None:
        """Forget the first line; not before: what comes later must not overtake it."""
        with self._added:
            self._unwritten_bytes -= len(self._unwritten.popleft() or b"")
            self._added.notify_all()

    def _first(self) -> bytes | None:
        with self._added:
            self._added.wait_for(lambda: self._unwritten)
            return self._unwritten[0]


def _readiness(file: int) -> Callable[[], bool]:
    """Return what says whether a file takes something at once; on Windows nobody can say."""
    if sys.platform == "win32":
        return lambda: False
    poll = select.poll()
    poll.register(file, select.POLLOUT)
    return lambda: bool(poll.poll(0))


def end_of_input(file: int) -> Callable[[], bool]:
    """Return what says whether the writers have closed a pipe or socket, though not all is read; False for a file."""
    if sys.platform == "win32":
        return lambda: False
    half_closed = getattr(select, "POLLRDHUP", 0)  # of a socket, which Node gives its children; Linux alone has it
    poll = select.poll()
    poll.register(file, half_closed)  # the end of a pipe is reported unasked
    return lambda: any(event & (select.POLLHUP | half_closed) for _, event in poll.poll(0))

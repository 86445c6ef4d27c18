"""The wire of stdio: stdin and stdout of this process, reserved for the protocol.

After the claim, file descriptor 0 is empty and 1 is stderr, for good. Prints of a handler, a library or a child
process, at import or at exit, never reach the protocol. Reading and writing have threads of their own that may be
abandoned. A client that neither writes nor reads cannot delay the end of the process.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self

import anyio
from duetime.server.protocol.refusals import NO_MESSAGE, shortened
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
"""The longest message, in bytes; a longer one is answered with an error and dropped."""

_MAX_LINES_AHEAD = 64
_MAX_LINES_UNWRITTEN = 1_000
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


@dataclass(slots=True)
class Pending:
    """The unanswered requests, so that the end of input does not cut them off."""

    ids: set[str | int] = field(default_factory=set)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def asked(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest) and message.method != _UNANSWERED:
            self.ids.add(message.id)
        elif getattr(message, "method", None) == "notifications/cancelled":
            self._forget((getattr(message, "params", None) or {}).get("requestId"))

    def answered(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCResponse | JSONRPCError):
            self._forget(message.id)

    def _forget(self, request_id: object) -> None:
        if isinstance(request_id, str | int):
            self.ids.discard(request_id)
            self.changed.set()

    def forget_all(self) -> None:
        """Wait for no answer any longer. Call it on the event loop."""
        self.ids.clear()
        self.changed.set()

    async def drained(self, seconds: float) -> None:
        """Return when every request is answered, or after `seconds`."""
        with anyio.move_on_after(seconds):
            while self.ids:
                self.changed.clear()
                await self.changed.wait()


class Outgoing:
    """The messages to the client, as the SDK's WriteStream."""

    def __init__(self, wire: Wire) -> None:
        self.pending = Pending()
        self._file = wire.outgoing
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="duetime-stdout", daemon=True)
        self._thread.start()

    async def send(self, item: SessionMessage, /) -> None:
        if not self._thread.is_alive():
            raise anyio.BrokenResourceError
        while self._queue.qsize() > _MAX_LINES_UNWRITTEN:  # noqa: ASYNC110 - a thread drains it; a client that reads never waits
            await anyio.sleep(0.01)
        self.put(item.message)

    def put(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCError):
            message = message.model_copy(update={"error": shortened(message.error)})
        self._queue.put(message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        self.pending.answered(message)

    async def aclose(self) -> None:
        """Let the thread write the queued messages."""
        self._queue.put(None)

    def flush(self, seconds: float) -> None:
        """Wait until everything is written, at most `seconds`; the stream must be closed before."""
        self._thread.join(seconds)

    def _write(self) -> None:
        with suppress(OSError):  # the client is gone; its end of input ends us too
            while (line := self._queue.get()) is not None:
                while line:
                    line = line[os.write(self._file, line) :]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class Incoming:
    """The messages from the client, as the SDK's ReadStream. It ends with the input or with `end()`, once answered."""

    def __init__(
        self,
        wire: Wire,
        outgoing: Outgoing,
        *,
        drain: float,
        on_request: Callable[[str], None] = lambda _: None,
        on_end: Callable[[], None],
    ) -> None:
        self._wire = wire
        self._outgoing = outgoing
        self._pending = outgoing.pending
        self._drain = drain
        self._on_request = on_request
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(_MAX_LINES_AHEAD)
        threading.Thread(target=self._read, name="duetime-stdin", daemon=True).start()

    def end(self) -> None:
        """Read no further. Call it on the event loop."""
        self._lines.put_nowait(None)

    async def receive(self) -> SessionMessage | Exception:
        while (line := await self._lines.get()) is not None:
            self._room.release()
            message = self._understood(line)
            if message is not None:
                self._pending.asked(message)
                if isinstance(message, JSONRPCRequest):
                    self._on_request(message.method)
                return SessionMessage(message)
        self._lines.put_nowait(None)  # for whoever asks again
        self._on_end()
        await self._pending.drained(self._drain)
        raise anyio.EndOfStream

    def _understood(self, line: bytes) -> JSONRPCMessage | None:
        if not line.strip():
            return None
        try:
            return jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            return self._second_reading(line)

    def _second_reading(self, line: bytes) -> JSONRPCMessage | None:
        """Read a line that the strict reader refused: half an emoji in an argument must be answered, not dropped."""
        try:
            found = json.loads(line)
            return jsonrpc_message_adapter.validate_python(_sendable(found), by_name=False)
        except (ValidationError, RecursionError, ValueError) as error:
            self._refuse(line, error)
            return None

    def _refuse(self, line: bytes, error: Exception) -> None:
        if len(line) >= MAX_LINE_BYTES:
            problem = ErrorData(code=INVALID_REQUEST, message=f"Message too long: {MAX_LINE_BYTES} bytes are the limit")
        elif isinstance(error, ValidationError):
            problem = ErrorData(code=INVALID_REQUEST, message=NO_MESSAGE)
        else:
            problem = ErrorData(code=PARSE_ERROR, message="Parse error: the line is not JSON")
        self._outgoing.put(JSONRPCError(jsonrpc="2.0", id=None, error=problem))

    def _read(self) -> None:
        with suppress(OSError, RuntimeError), os.fdopen(self._wire.incoming, "rb", closefd=False) as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                rest = line
                while len(rest) == MAX_LINE_BYTES and not rest.endswith(b"\n"):
                    rest = stream.readline(MAX_LINE_BYTES)
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self.end)

    async def aclose(self) -> None:
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _sendable(message: Any) -> Any:
    """Replace lone surrogates everywhere but in a tool's arguments, which are answered by name of the argument."""
    if not isinstance(message, dict) or not isinstance(params := message.get("params"), dict):
        return _replaced(message)
    rest = {key: value for key, value in params.items() if key != "arguments"}
    kept = {"arguments": params["arguments"]} if "arguments" in params else {}
    return {**_replaced({**message, "params": rest}), "params": {**_replaced(rest), **kept}}


def _replaced(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))

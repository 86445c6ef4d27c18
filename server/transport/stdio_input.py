"""The messages from the client of a stdio server: read by a thread of their own, line by line."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Self

import anyio
from duetime.server.protocol.refusals import NO_MESSAGE
from duetime.server.transport.stdio_wire import ClosedAtExit, Outgoing, Wire, end_of_input
from mcp.shared.message import SessionMessage
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    PROTOCOL_VERSION_META_KEY,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

MAX_LINE_BYTES: Final = 4 * 1024 * 1024
"""The longest message, in bytes; a longer one is answered with an error and dropped."""

_MAX_MESSAGES_AHEAD = 64
_HANDSHAKE = "initialize"
_NO_MESSAGE: Final = ErrorData(code=INVALID_REQUEST, message=NO_MESSAGE)


class Incoming(ClosedAtExit):
    """The messages from the client, as the SDK's ReadStream. It ends with the input or with `end()`, once answered.

    `takes` is asked on the reading thread whether it answers a request of the present protocol by itself.
    """

    def __init__(
        self,
        wire: Wire,
        outgoing: Outgoing,
        *,
        drain: float,
        takes: Callable[[JSONRPCRequest], bool] = lambda _: False,
        on_request: Callable[[str], None] = lambda _: None,
        on_end: Callable[[], None],
    ) -> None:
        self._wire = wire
        self._outgoing = outgoing
        self._pending = outgoing.pending
        self._drain = drain
        self._takes = takes
        self._on_request = on_request
        self._on_end = on_end
        self._is_modern: bool | None = None
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[JSONRPCMessage | None] = asyncio.Queue()
        self._room = threading.Semaphore(_MAX_MESSAGES_AHEAD)
        self._ended = False
        self._has_hung_up = end_of_input(wire.incoming)
        threading.Thread(target=self._read, name="duetime-stdin", daemon=True).start()

    def end(self) -> None:
        """Read no further. Call it on the event loop."""
        self._ended = True
        self._messages.put_nowait(None)

    async def receive(self) -> SessionMessage | Exception:
        if (message := await self._messages.get()) is not None:
            self._room.release()
            self._pending.asked(message)
            return SessionMessage(message)
        self._messages.put_nowait(None)  # for whoever asks again
        self._on_end()
        await self._pending.drained(self._drain)
        self._pending.forget_all()  # a call that has not begun by now is not made: its client would not learn of it
        raise anyio.EndOfStream

    def _read(self) -> None:
        with suppress(OSError, RuntimeError), os.fdopen(self._wire.incoming, "rb", closefd=False) as stream:
            while line := stream.readline(MAX_LINE_BYTES):
                rest = line
                while len(rest) == MAX_LINE_BYTES and not rest.endswith(b"\n"):
                    rest = stream.readline(MAX_LINE_BYTES)
                if self._ended:
                    return
                self._pass_on(line)
                self._outgoing.wait_for_room(self._is_over)
        with suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self.end)

    def _is_over(self) -> bool:
        """Whether the client has ended its input, or this process ends: what is left to read is little."""
        return self._ended or self._has_hung_up()

    def _pass_on(self, line: bytes) -> None:
        message = self._understood(line)
        if message is not None and not self._is_taken(message):
            self._room.acquire()
            self._loop.call_soon_threadsafe(self._messages.put_nowait, message)

    def _is_taken(self, message: JSONRPCMessage) -> bool:
        """Whether a request is answered apart; the first one is the SDK's, which reads the era of the client in it."""
        if not isinstance(message, JSONRPCRequest):
            return False
        self._on_request(message.method)
        if self._is_modern is None:
            self._is_modern = message.method != _HANDSHAKE and _names_version(message.params)
            return False
        return self._is_modern and self._takes(message)

    def _understood(self, line: bytes) -> JSONRPCMessage | None:
        if not line.strip():
            return None
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            return self._second_reading(line)
        if isinstance(message, JSONRPCNotification) and "id" in json.loads(line):  # a request whose id is none
            self._outgoing.put(JSONRPCError(jsonrpc="2.0", id=None, error=_NO_MESSAGE))
            return None
        return message

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
            problem = _NO_MESSAGE
        else:
            problem = ErrorData(code=PARSE_ERROR, message="Parse error: the line is not JSON")
        self._outgoing.put(JSONRPCError(jsonrpc="2.0", id=None, error=problem))

    async def aclose(self) -> None:
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


def _names_version(params: Mapping[str, Any] | None) -> bool:
    """Whether a request names its version of the protocol: so the SDK knows a client of the present one."""
    meta = (params or {}).get("_meta")
    return isinstance(meta, Mapping) and PROTOCOL_VERSION_META_KEY in meta


def _sendable(message: Any) -> Any:
    """Replace lone surrogates everywhere but in a tool's arguments, which are answered by name of the argument."""
    if not isinstance(message, dict) or not isinstance(params := message.get("params"), dict):
        return _replaced(message)
    rest = {key: value for key, value in params.items() if key != "arguments"}
    kept = {"arguments": params["arguments"]} if "arguments" in params else {}
    return {**_replaced({**message, "params": rest}), "params": {**_replaced(rest), **kept}}


def _replaced(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))

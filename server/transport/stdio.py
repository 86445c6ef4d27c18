"""Serves one client over stdio; the end loses nothing and waits for no caller."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context

import anyio
from duetime.server.protocol.plain_calls import PlainCall, PlainToolCalls
from duetime.server.protocol.sdk import end_streams, lowlevel
from duetime.server.runtime.shutdown import NOTHING_TO_END, ProcessEnd, Shutdown, on_loop
from duetime.server.transport.stdio_input import Incoming
from duetime.server.transport.stdio_wire import Outgoing, Wire
from duetime.tools.threads import begin
from mcp.server import MCPServer
from mcp.types import CallToolResult, JSONRPCRequest

ANSWER_GRACE_S = 2.0
"""Seconds that calls under way get to be answered after the end of input."""


def run_stdio(
    server: MCPServer[None],
    wire: Wire,
    *,
    ends: ProcessEnd = NOTHING_TO_END,
    grace: float = 5.0,
    on_request: Callable[[str], None] = lambda _: None,
) -> int:
    """Serve until the input ends or SIGTERM or SIGINT arrives, then end everything; return the exit code.

    The first of these signs starts the hand-back of what runs, while calls under way are still answered; it takes
    `grace` seconds. A further sign shortens both. Work that does not end by then (a handler that is stuck, a database
    that does not answer) is left behind. All acknowledged changes are committed. `on_request` is called with the method
    of each request, before it is served.
    """
    with Shutdown(ANSWER_GRACE_S + grace) as ending:
        ending.on_hurry(ends.hurry)
        anyio.run(_serve, server, wire, ending, on_request, ends)
        ending.begin("the server ended")
        ending.close(ends)
    return ending.code


async def _serve(
    server: MCPServer[None], wire: Wire, ending: Shutdown, on_request: Callable[[str], None], ends: ProcessEnd
) -> None:
    outgoing = Outgoing(wire)

    def end() -> None:
        ending.begin("the input ended")
        end_streams(server)

    takes = WireCalls(server, outgoing).take
    incoming = Incoming(wire, outgoing, drain=ANSWER_GRACE_S, takes=takes, on_request=on_request, on_end=end)
    stop_reading = on_loop(incoming.end)

    def stop() -> None:
        ends.begin()
        stop_reading()

    ending.on_begin(stop)
    ending.on_hurry(on_loop(outgoing.pending.forget_all))
    running = lowlevel(server)  # the SDK's own transports run it the same way
    await running.run(incoming, outgoing, running.create_initialization_options())
    outgoing.flush(1.0)


class WireCalls:
    """Plain calls of tools from the wire: each is made and answered by a thread, without a turn of the event loop."""

    def __init__(self, server: MCPServer[None], outgoing: Outgoing) -> None:
        self._calls, self._outgoing = PlainToolCalls(server), outgoing

    def take(self, request: JSONRPCRequest) -> bool:
        """Begin to answer a request, if it is a plain call."""
        call = self._calls.of(request)
        if call is None:
            return False
        self._outgoing.pending.asked(request)
        work = _WireCall(call, self._calls, self._outgoing)
        try:
            begin(work)
        except Exception as error:  # noqa: BLE001 - too many calls, or no thread: this one fails alone
            work.end_with(call.tool.failed(error))
            work.answer()
        return True


class _WireCall:
    """One call, as the work of a thread."""

    def __init__(self, call: PlainCall, calls: PlainToolCalls, outgoing: Outgoing) -> None:
        self._call, self._calls, self._outgoing = call, calls, outgoing
        self._response = b""

    def run(self) -> None:
        """Make the call, unless the client has taken it back before."""
        if not self._is_awaited:
            return
        call = self._call
        try:
            result = copy_context().run(call.tool.answer_here, call.arguments, call.origin)
        except BaseException as defect:  # noqa: BLE001 - whatever it is, the client gets an answer
            result = call.tool.failed(defect)
        self.end_with(result)

    def end_with(self, result: CallToolResult) -> None:
        self._response = self._calls.in_json(self._call, result)

    def answer(self) -> None:
        """Write the answer, if the client still waits for it."""
        if self._response and self._is_awaited:
            self._outgoing.put_line(self._response)
        self._outgoing.pending.answered(self._call.request_id)

    @property
    def _is_awaited(self) -> bool:
        return self._outgoing.pending.waits_for(self._call.request_id)

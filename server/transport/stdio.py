"""Serves one client over stdio; the end loses nothing and waits for no caller."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from duetime.server.protocol.sdk import end_streams, lowlevel
from duetime.server.runtime.shutdown import NOTHING_TO_END, ProcessEnd, Shutdown, on_loop
from duetime.server.transport.stdio_wire import Incoming, Outgoing, Wire
from mcp.server import MCPServer

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
        ends.close()
    return ending.code


async def _serve(
    server: MCPServer[None], wire: Wire, ending: Shutdown, on_request: Callable[[str], None], ends: ProcessEnd
) -> None:
    outgoing = Outgoing(wire)

    def end() -> None:
        ending.begin("the input ended")
        end_streams(server)

    incoming = Incoming(wire, outgoing, drain=ANSWER_GRACE_S, on_request=on_request, on_end=end)
    stop_reading = on_loop(incoming.end)

    def stop() -> None:
        ends.begin()
        stop_reading()

    ending.on_begin(stop)
    ending.on_hurry(on_loop(outgoing.pending.forget_all))
    running = lowlevel(server)  # the SDK's own transports run it the same way
    await running.run(incoming, outgoing, running.create_initialization_options())
    outgoing.flush(1.0)

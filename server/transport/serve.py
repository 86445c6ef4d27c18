"""Serves an application: the implementation of `duetime` and `duetime serve`."""

from __future__ import annotations

import gc
import logging

from duetime.server.app import App, build
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.runtime.logs import configure_logs
from duetime.server.runtime.shutdown import ProcessEnd
from duetime.server.settings.model import Settings
from duetime.server.transport.client_signs import sign_of
from duetime.server.transport.http import listening, run_http, say
from duetime.server.transport.stdio import run_stdio
from duetime.server.transport.stdio_wire import Wire
from duetime.tools.schedule_task import actions_of
from mcp.server import MCPServer

log = logging.getLogger(__name__)


def connect(app: App) -> MCPServer[None]:
    """Return the MCP server of an application; its subscribers are notified of every change."""
    changes = Subscriptions(app.store.history)
    app.listeners.append(changes.touched)
    return make_server(app.scheduler, changes, actions=actions_of(app.handlers))


def _built(settings: Settings) -> App:
    """Build an application, which is to be started next.

    Objects loaded so far live as long as the process. `gc.freeze` removes them from garbage collections, which would
    otherwise stop all threads for tens of milliseconds in a burst, and delay the end of the process by a second or
    more.
    """
    app = build(settings)
    gc.collect()
    gc.freeze()
    return app


def _end_of(app: App) -> ProcessEnd:
    return ProcessEnd(begin=app.begin_end, hurry=app.hurry, close=app.close)


def serve_stdio(settings: Settings) -> int:
    """Serve one client over stdin and stdout until it leaves; return the exit code. Logs go to stderr."""
    wire = Wire.claim()  # before the import of handlers, whose prints must not reach the client
    configure_logs(settings.log_level, settings.log_format)
    app = _built(settings)
    app.start(for_client=True)
    return run_stdio(
        connect(app),
        wire,
        ends=_end_of(app),
        grace=settings.grace_seconds,
        on_request=lambda method: app.note(sign_of(method)),
    )


def serve_http(settings: Settings) -> int:
    """Serve clients on this machine over HTTP until SIGTERM or SIGINT; return the exit code. Logs go to stderr."""
    announce = say if configure_logs(settings.log_level, settings.log_format) else log.info
    with listening(settings.host, settings.port) as bound:  # first, so that a taken port starts nothing
        app = _built(settings)
        return run_http(
            connect(app),
            bound,
            start=app.start,
            ready=app.ready,
            announce=announce,
            ends=_end_of(app),
            grace=settings.grace_seconds,
        )

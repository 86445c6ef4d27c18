"""Serves an application over HTTP: the implementation of `duetime serve`."""

from __future__ import annotations

import logging

from duetime.server.app import App, build
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.runtime.garbage import collect_less
from duetime.server.runtime.logs import configure_logs
from duetime.server.runtime.shutdown import ProcessEnd
from duetime.server.settings.model import Settings
from duetime.server.transport.http import listening, run_http, say
from duetime.tools.schedule_task import actions_of
from mcp.server import MCPServer

log = logging.getLogger(__name__)


def connect(app: App) -> MCPServer[None]:
    """Return the MCP server of an application; its subscribers are notified of every change."""
    changes = Subscriptions(lambda: app.store.history)
    app.listeners.append(changes.touched)
    return make_server(lambda: app.scheduler, changes, actions=actions_of(app.handlers), pools=app.scheduler.pools)


def serve_http(settings: Settings) -> int:
    """Serve clients on this machine over HTTP until SIGTERM or SIGINT; return the exit code. Logs go to stderr."""
    announce = (
        say if configure_logs(settings.log_level, settings.log_format, prints=settings.capture_prints) else log.info
    )
    with listening(settings.host, settings.port) as bound:  # first, so that a taken port starts nothing
        app = build(settings)
        collect_less()
        return run_http(
            connect(app),
            bound,
            start=app.start,
            ready=app.ready,
            announce=announce,
            ends=ProcessEnd(begin=app.begin_end, hurry=app.hurry, close=app.close),
            grace=settings.grace_seconds,
            origins=settings.allowed_origins,
        )

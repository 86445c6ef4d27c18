"""Serves an application over HTTP: the implementation of `duetime serve`."""

from __future__ import annotations

import logging
from functools import partial

from duetime.scheduler.handlers import Handlers
from duetime.server.app import App, build
from duetime.server.protocol.sdk import replace_tools
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions, local_caller
from duetime.server.runtime.garbage import collect_less
from duetime.server.runtime.logs import configure_logs
from duetime.server.runtime.shutdown import ProcessEnd
from duetime.server.settings.model import Settings
from duetime.server.transport.http import listening, run_http, say
from duetime.server.transport.reload import ReloadingApp
from duetime.tools.registration import make_tools
from duetime.tools.schedule_task import actions_of
from mcp.server import MCPServer

log = logging.getLogger(__name__)


def connect(app: App | ReloadingApp) -> MCPServer[None]:
    """Return the MCP server of an application; its subscribers are notified of every change.

    After a reload its tools name the new actions.
    """
    changes = Subscriptions(lambda: app.store.history)
    app.listeners.append(changes.touched)
    server = make_server(lambda: app.scheduler, changes, actions=actions_of(app.handlers), pools=app.scheduler.pools)
    if isinstance(app, ReloadingApp):
        app.on_reload = partial(_offer, server, app)
    return server


def _offer(server: MCPServer[None], app: ReloadingApp, handlers: Handlers) -> None:
    pools = app.scheduler.pools
    replace_tools(
        server, make_tools(lambda: app.scheduler, caller=local_caller, actions=actions_of(handlers), pools=pools)
    )


def serve_http(settings: Settings, *, reload: bool = False) -> int:
    """Serve clients on this machine over HTTP until SIGTERM or SIGINT; return the exit code. Logs go to stderr.

    With `reload`, the handlers are loaded again when their files change.
    """
    announce = (
        say if configure_logs(settings.log_level, settings.log_format, prints=settings.capture_prints) else log.info
    )
    with listening(settings.host, settings.port) as bound:  # first, so that a taken port starts nothing
        app = ReloadingApp(settings) if reload else build(settings)
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

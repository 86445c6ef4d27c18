"""Serves an application over HTTP: the implementation of `duetime serve`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

from duetime.scheduler.handlers import Handlers
from duetime.server.app import App, build
from duetime.server.auth.caller import request_validity
from duetime.server.auth.guard import Guard
from duetime.server.protocol.sdk import replace_tools
from duetime.server.protocol.server import caller_of, make_server
from duetime.server.protocol.subscriber_tokens import local_validity
from duetime.server.protocol.subscriptions import Subscriptions
from duetime.server.runtime.garbage import collect_less
from duetime.server.runtime.logs import configure_logs
from duetime.server.runtime.readiness import worker_problems
from duetime.server.runtime.shutdown import ProcessEnd
from duetime.server.runtime.start import once_reachable
from duetime.server.runtime.warm_up import warm_up
from duetime.server.settings.model import Settings
from duetime.server.telemetry.alerts.watch import watching
from duetime.server.transport.browsers import HttpAccess
from duetime.server.transport.http import HttpSite, listening, run_http, say
from duetime.server.transport.reload import ReloadingApp
from duetime.tools.registration import Caller, make_tools
from duetime.tools.schedule_task import actions_of
from mcp.server import MCPServer
from starlette.routing import BaseRoute

Surface = Callable[[App | ReloadingApp, Guard | None], Sequence[BaseRoute]]
"""Makes the routes of one room, such as REST, for an application and the guard of its callers."""


def _current(app: App | ReloadingApp) -> Callable[[], App]:
    return lambda: app.app if isinstance(app, ReloadingApp) else app


def _rest(app: App | ReloadingApp, _: Guard | None) -> Sequence[BaseRoute]:
    from duetime.server.rest.api import routes  # noqa: PLC0415 - no other process needs it

    return routes(_current(app), app.listeners)


def _admin(app: App | ReloadingApp, guard: Guard | None) -> Sequence[BaseRoute]:
    from duetime.server.admin.routes import routes  # noqa: PLC0415 - jinja2, which no other process needs

    return routes(_current(app), _current(app)().settings, guard)


def _metrics(app: App | ReloadingApp, _guard: Guard | None) -> Sequence[BaseRoute]:
    """Return the route `/metrics`; the application is observed from now on."""
    from duetime.server.telemetry.metrics.metrics import Metrics  # noqa: PLC0415 - the client, only where it is used
    from duetime.server.telemetry.metrics.routes import metrics_routes  # noqa: PLC0415 - as above

    return metrics_routes(Metrics(app, app.settings, role="serve"))


def _load_overview() -> None:
    from duetime.server.admin.renderer import load_overview  # noqa: PLC0415 - as above

    load_overview()


_SURFACES: tuple[Surface, ...] = (_rest, _admin, _metrics)

log = logging.getLogger(__name__)


def connect(app: App | ReloadingApp, guard: Guard | None = None) -> MCPServer[None]:
    """Return the MCP server of an application; its subscribers are notified of every change.

    After a reload its tools name the new actions.
    """
    caller = caller_of(guard)
    validity = request_validity if guard else local_validity
    changes = Subscriptions(lambda: app.store.history, caller=caller, validity=validity)
    app.listeners.append(changes.touched)
    actions, pools = actions_of(app.handlers), app.scheduler.pools
    server = make_server(
        lambda: app.scheduler,
        changes,
        actions=actions,
        pools=pools,
        external=bool(app.handlers.external),
        guard=guard,
        observe=app.observers.called,
    )
    if isinstance(app, ReloadingApp):
        app.on_reload = partial(_offer, server, app, caller, changes)
    return server


def _offer(
    server: MCPServer[None], app: ReloadingApp, caller: Caller, changes: Subscriptions, handlers: Handlers
) -> None:
    actions, pools, observe = actions_of(handlers), app.scheduler.pools, app.observers.called
    tools = make_tools(lambda: app.scheduler, caller=caller, actions=actions, pools=pools, observe=observe)
    replace_tools(server, tools)
    changes.tools_changed()


def surfaces(app: App | ReloadingApp, guard: Guard | None) -> list[BaseRoute]:
    """Return the routes other than MCP."""
    return [route for routes in _SURFACES for route in routes(app, guard)]


def _made(settings: Settings, *, reload: bool) -> App | ReloadingApp:
    return ReloadingApp(settings) if reload else build(settings)


def start(app: App | ReloadingApp) -> None:
    """Start what runs or dispatches tasks; log it where workers are to run them and there is none."""
    app.start()
    for problem in worker_problems(app.store) if app.settings.redis_url else ():
        log.warning("%s", problem)


def serve_http(settings: Settings, *, reload: bool = False) -> int:
    """Serve clients over HTTP until SIGTERM or SIGINT; return the exit code. Logs go to stderr.

    With `reload`, the handlers are loaded again when their files change.
    """
    announce = (
        say if configure_logs(settings.log_level, settings.log_format, prints=settings.capture_prints) else log.info
    )
    with (
        listening(settings.host, settings.port, guarded=bool(settings.auth)) as bound,  # a taken port starts nothing
        ExitStack() as watched,
    ):
        app = once_reachable(settings.database_url, lambda: _made(settings, reload=reload))
        collect_less()
        warm_up(_load_overview)
        guard = Guard.of(settings, lambda: app.store)
        watched.enter_context(watching(app, settings))

        def close() -> None:
            watched.close()
            app.close()

        access, routes = HttpAccess.of(settings), surfaces(app, guard)
        return run_http(
            HttpSite(connect(app, guard), app.ready, access, routes, app.observers.refused),
            bound,
            start=partial(start, app),
            announce=announce,
            ends=ProcessEnd(begin=app.begin_end, hurry=app.hurry, close=close),
            grace=settings.grace_seconds,
        )

"""`/metrics` of a worker, on a port of its own: with the checks of host, token and scope that a server makes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from duetime.server.app import App
from duetime.server.auth.access import AccessRefused
from duetime.server.auth.guard import Challenges, Guard
from duetime.server.settings.access import MCP_PATH
from duetime.server.telemetry.metrics.metrics import Metrics
from duetime.server.telemetry.metrics.routes import METRICS_PATH, metrics_routes
from duetime.server.transport.browsers import HttpAccess
from duetime.server.transport.connections import LimitedConnection
from duetime.server.transport.http import listening, url_of
from duetime.server.transport.request_checks import RequestChecks, refuse_access
from mcp.server.auth.middleware.bearer_auth import BearerAuthBackend
from starlette.applications import Starlette
from starlette.middleware.authentication import AuthenticationMiddleware

STOP_TIMEOUT_S: Final = 2

log = logging.getLogger(__name__)


@contextmanager
def answering_metrics(app: App, port: int) -> Iterator[str]:
    """Answer `/metrics` for the time of the block, from a thread; gives the address. Enter it before the app starts.

    Raises InvalidSetting when the port cannot be had.
    """
    settings = app.settings
    with listening(settings.metrics_host, port, guarded=bool(settings.auth)) as bound:
        address = url_of(bound).removesuffix(MCP_PATH) + METRICS_PATH
        config = uvicorn.Config(
            metrics_app(app),
            http=LimitedConnection,
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=STOP_TIMEOUT_S,
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([bound],), name="duetime-metrics", daemon=True)
        thread.start()
        log.info("metrics are at %s", address)
        try:
            yield address
        finally:
            server.should_exit = True
            thread.join(2 * STOP_TIMEOUT_S)


def metrics_app(app: App) -> Starlette:
    """Return what answers for a worker; it is observed from now on."""
    guard = Guard.of(app.settings, lambda: app.store)
    asgi = Starlette(
        routes=metrics_routes(Metrics(app, app.settings, role="work")),
        exception_handlers={AccessRefused: refuse_access},
    )
    if guard is not None:
        asgi.add_middleware(AuthenticationMiddleware, backend=BearerAuthBackend(guard.verifier))
        asgi.add_middleware(Challenges, settings=guard.settings)
    asgi.add_middleware(RequestChecks, access=HttpAccess.of(app.settings), guarded=guard is not None)
    return asgi

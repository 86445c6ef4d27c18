"""Serves MCP over streamable HTTP: `/mcp`, and `/livez` and `/readyz` for supervisors."""

from __future__ import annotations

import errno
import ipaddress
import logging
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import anyio
import uvicorn
from duetime.scheduler.errors import DuetimeError, InvalidSetting
from duetime.scheduler.runtime.failure_log import RepeatFilter
from duetime.server.auth.access import AccessRefused
from duetime.server.auth.guard import Challenges
from duetime.server.protocol.sdk import end_streams, serve_dead_sessions
from duetime.server.rest.plain_refusals import PlainRefusals
from duetime.server.runtime.shutdown import NOTHING_TO_END, ProcessEnd, Shutdown, on_loop
from duetime.server.settings.access import MCP_PATH
from duetime.server.telemetry.trace_context import TraceContext
from duetime.server.transport.browsers import BrowserAccess, HttpAccess, against_rebinding
from duetime.server.transport.connections import KEEP_ALIVE_S, LimitedConnection, UnansweredAtEnd
from duetime.server.transport.dead_sessions import DeadSessions
from duetime.server.transport.plain_endpoint import PlainEndpoint
from duetime.server.transport.request_checks import MAX_REQUEST_BODY_BYTES, RequestChecks, refuse_access
from duetime.server.transport.short_refusals import ShortRefusals
from duetime.tools.threads import cross
from mcp.server import MCPServer
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

STREAM_CLOSE_GRACE_S = 1
"""Seconds that open streams get to end when the server stops; they never end by themselves."""


log = logging.getLogger(__name__)


class Readiness(Protocol):
    """Gives the answer of `/readyz`, or raises a DuetimeError while nothing can be scheduled."""

    def __call__(self, *, verbose: bool) -> str: ...


def say(sentence: str) -> None:
    """Write a sentence to stderr."""
    sys.stderr.write(f"{sentence}\n")
    sys.stderr.flush()


@dataclass(frozen=True, slots=True)
class HttpSite:
    """The site that is served over HTTP: MCP, the probes, and `routes` that ask `server.auth.access` who calls.

    `ready` is called on a thread for `/readyz`: it gives the answer, or raises a DuetimeError while nothing can be
    scheduled. `refused` gets the code of each request that is refused before an operation serves it.
    """

    server: MCPServer[None]
    ready: Readiness
    access: HttpAccess = field(default_factory=HttpAccess)
    routes: Sequence[BaseRoute] = ()
    refused: Callable[[str], None] = lambda _code: None


def run_http(
    site: HttpSite,
    bound: socket.socket,
    *,
    start: Callable[[], None] = lambda: None,
    announce: Callable[[str], None] = say,
    ends: ProcessEnd = NOTHING_TO_END,
    grace: float = 5.0,
) -> int:
    """`start`, serve until SIGTERM or SIGINT, then end everything within `grace` seconds; return the exit code.

    The first signal starts the hand-back of what runs, a second one shortens it. `bound` is a socket of `listening`.
    `announce` gets a sentence with the address.
    """
    with Shutdown(STREAM_CLOSE_GRACE_S + grace) as ending:
        ending.on_hurry(ends.hurry)
        start()
        app = http_app(site)
        announce(f"duetime serves MCP at {url_of(bound)}")
        for name in ("uvicorn.error", "asyncio"):
            logging.getLogger(name).addFilter(RepeatFilter())
        config = uvicorn.Config(
            without_disconnects(app),
            http=LimitedConnection,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=STREAM_CLOSE_GRACE_S,
            timeout_keep_alive=KEEP_ALIVE_S,
            proxy_headers=False,
        )
        running = _Server(config)
        anyio.run(_serve, running, bound, site.server, ending, ends.begin)
        ending.begin("the server ended")
        ending.close(ends)
    return ending.code


async def _serve(
    running: uvicorn.Server, bound: socket.socket, server: MCPServer[None], ending: Shutdown, begin: Callable[[], None]
) -> None:
    def close_streams() -> None:
        end_streams(server)
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it would log each cut stream as an error
        running.should_exit = True

    def leave_at_once() -> None:
        running.force_exit = True

    stop_serving = on_loop(close_streams)

    def stop() -> None:
        begin()
        stop_serving()

    ending.on_begin(stop)
    ending.on_hurry(on_loop(leave_at_once))
    await running.serve([bound])


def http_app(site: HttpSite) -> Starlette:
    """Return the ASGI application of a site.

    Answers of MCP are single JSON documents: measured, they are faster than event streams.
    """
    server, access = site.server, site.access

    async def livez(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(request: Request) -> Response:
        verbose = "verbose" in request.query_params and not server.settings.auth  # of all tenants, for whoever asks
        try:
            return PlainTextResponse(await cross(partial(site.ready, verbose=verbose)))
        except DuetimeError as error:
            return PlainTextResponse(str(error), status_code=503)

    security = against_rebinding(access)
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        json_response=True,
        max_request_body_size=MAX_REQUEST_BODY_BYTES,
        transport_security=security,
    )
    manager = server.session_manager
    manager.asgi_app = PlainEndpoint(manager.asgi_app, server, security)  # type: ignore[assignment]  # any application
    if server.settings.auth is not None:
        app.add_middleware(Challenges, settings=server.settings.auth, refused=site.refused)
    _add_middleware(app, access, guarded=server.settings.auth is not None)
    app.add_exception_handler(AccessRefused, refuse_access)
    serve_dead_sessions(server, DeadSessions())
    app.routes.extend([Route("/livez", livez), Route("/readyz", readyz), *site.routes])
    return app


def _add_middleware(app: Starlette, access: HttpAccess, *, guarded: bool) -> None:
    """Put around all routes what stands between them and the network, the outermost last."""
    app.add_middleware(ShortRefusals)
    if "opentelemetry.sdk.trace" in sys.modules:  # the only case in which a span is more than nothing
        app.add_middleware(TraceContext)
    if access.origins:
        app.add_middleware(BrowserAccess, path=MCP_PATH, origins=access.origins)
    app.add_middleware(RequestChecks, access=access, guarded=guarded)
    app.add_middleware(UnansweredAtEnd)
    app.add_middleware(PlainRefusals)
    if access.proxies:
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(access.proxies))


def without_disconnects(app: ASGIApp) -> ASGIApp:
    """Return the application without a traceback for each client that leaves before its request is complete."""

    async def quiet(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except ClientDisconnect:
            log.debug("a client left before its request was complete")

    return quiet


def check_loopback(host: str) -> None:
    """Raise InvalidSetting unless `host` is this machine alone: callers are not authenticated."""
    try:
        found = {ipaddress.ip_address(item[4][0]) for item in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError) as error:
        raise InvalidSetting(f"host: {host[:100]!r} is not an address of this machine. Use 127.0.0.1.") from error
    if not all(address.is_loopback for address in found):
        raise InvalidSetting(
            f"host: {host[:100]!r} can be reached from other machines, and callers are not authenticated. "
            "Use 127.0.0.1, or set auth (DUETIME_AUTH) to keys or oauth."
        )


def url_of(bound: socket.socket) -> str:
    """Return the address of the MCP endpoint on a bound socket."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{MCP_PATH}"


@contextmanager
def listening(host: str, port: int, *, guarded: bool = False) -> Iterator[socket.socket]:
    """Listen on a port of this machine, 0 for any free one, for the time of the block.

    Raises InvalidSetting when `host` and the port cannot be had, or `host` is no loopback address and callers are not
    authenticated (`guarded`).
    """
    if not guarded:
        check_loopback(host)
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    # The protocol is named, or asyncio would not set TCP_NODELAY, and each answer would wait 40 ms.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            bound.bind((host, port))
        except OSError as error:
            raise InvalidSetting(_not_bound(host, port, error)) from error
        bound.listen(128)
        yield bound


def _not_bound(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port: {port} is in use by another program. Choose another port, or 0 for any free port."
    if error.errno == errno.EACCES:
        return f"port: {port} needs more rights than this user has. Choose one above 1023, for example 8787."
    return f"host: cannot listen on {host} port {port} ({error.strerror}). Use 127.0.0.1 and port 8787."


class _Server(uvicorn.Server):
    """Leaves the signals to `Shutdown`: uvicorn raises them again after a graceful stop, which spoils the exit code."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

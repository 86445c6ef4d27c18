"""Lets pages of chosen origins call the MCP endpoint from a browser (CORS); without one, no page can."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from duetime.server.settings.access import AccessSettings
from duetime.server.settings.checks import LOOPBACK_ORIGINS
from mcp.server.transport_security import TransportSecuritySettings
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
METHODS = ("GET", "POST", "DELETE")
READABLE_HEADERS = ("Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate", "Retry-After")
"""Headers of an answer that a page may read; a client cannot keep its session without the first."""

PREFLIGHT_MAX_AGE_S = 600

_LOOPBACK_PAGE = re.compile(rf"https?://({'|'.join(map(re.escape, LOOPBACK_NAMES))})(:\d+)?")


@dataclass(frozen=True, slots=True)
class HttpAccess:
    """The names by which requests may call this server besides its own, and the origins of pages that may.

    `own` are the origins of the pages that this server itself serves, such as the admin page. `proxies` are addresses
    and networks whose `X-Forwarded-For` is believed.
    """

    hosts: Sequence[str] = ()
    origins: Sequence[str] = ()
    own: Sequence[str] = ()
    proxies: Sequence[str] = ()

    @classmethod
    def of(cls, settings: AccessSettings) -> HttpAccess:
        """Return what the settings allow."""
        return cls(settings.host_names, settings.allowed_origins, settings.own_origins, settings.trusted_proxies)


class BrowserAccess:
    """An ASGI application that answers preflights for one path, and names the origins that may read its answers.

    A page may send any header: who it is has been decided by its origin, and credentials of a browser are never taken.
    """

    def __init__(self, app: ASGIApp, path: str, origins: Sequence[str]) -> None:
        named = [origin for origin in origins if origin != LOOPBACK_ORIGINS]
        self._app = app
        self._path = path
        self._shared = CORSMiddleware(
            app,
            allow_origins=named,
            allow_origin_regex=_LOOPBACK_PAGE.pattern if LOOPBACK_ORIGINS in origins else None,
            allow_methods=METHODS,
            allow_headers=["*"],
            expose_headers=READABLE_HEADERS,
            allow_private_network=True,
            max_age=PREFLIGHT_MAX_AGE_S,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        shared = scope["type"] == "http" and scope["path"] == self._path
        await (self._shared if shared else self._app)(scope, receive, send)


def against_rebinding(access: HttpAccess) -> TransportSecuritySettings:
    """Return what a request has to name: this server as its host, and as its origin a page that may call."""
    schemes = ("http", "https") if LOOPBACK_ORIGINS in access.origins else ("http",)
    local = [f"{scheme}://{name}{port}" for scheme in schemes for name in LOOPBACK_NAMES for port in ("", ":*")]
    return TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=[host for name in (*LOOPBACK_NAMES, *access.hosts) for host in (name, f"{name}:*")],
        allowed_origins=[*local, *access.origins],
    )

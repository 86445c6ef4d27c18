"""Access to routes: whose a request is, and whether it has the scope that a route requires.

Everything that `duetime serve` answers besides MCP goes through here: REST, the admin page and metrics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from http import HTTPStatus
from typing import Final

from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.principal import LOCAL, Principal, Scope, sufficient_scopes
from duetime.server.auth.verifier import CallerToken
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse

RETRY_AFTER_S: Final = 5
"""Seconds after which a request that the database could not serve is worth repeating."""

GUARDED_SCOPE_KEY = "duetime.guarded"
"""The key of an ASGI scope that says whether callers have to prove who they are. Without it nobody is let in."""


class AccessRefused(DuetimeError):
    """The request has no right token, or its token lacks a scope; nothing was done."""

    def __init__(self, status: HTTPStatus, code: str, description: str, scope: Scope) -> None:
        super().__init__(description)
        self.status = status
        self.error = code
        self.headers = {
            "WWW-Authenticate": f'Bearer error="{code}", error_description="{description}", scope="{scope}"'
        }

    def response(self) -> JSONResponse:
        """Return the refusal in the words of RFC 6750."""
        body = {"error": self.error, "error_description": str(self)}
        return JSONResponse(body, self.status, self.headers)


def required_text(scopes: Sequence[Scope]) -> str:
    """Return the sentence of a refusal that names the scopes of which one would do."""
    return f"Required scope: {' or '.join(scopes)}"


OPERATORS_ONLY = "Only an operator may do this. Use a key of the tenant that the setting operator_tenant names"


def only_operators(scope: Scope) -> AccessRefused:
    """Return the refusal of an administrator of one tenant where something belongs to others, or to all."""
    return AccessRefused(HTTPStatus.FORBIDDEN, "insufficient_scope", OPERATORS_ONLY, scope)


def operator_only(found: Principal, scope: Scope) -> None:
    """Raise AccessRefused for a caller who administers no more than one tenant."""
    if not (found.may_change_all_of(None) if scope is Scope.ADMIN else found.may_read_all_of(None)):
        raise only_operators(scope)


def requires(scope: Scope, surface: str) -> Callable[[HTTPConnection], Principal]:
    """Return what says whose a request is; it raises AccessRefused for a caller without the scope.

    `surface` is the way in that the history of a change names: `rest`, `admin` or `metrics`.
    """

    def caller(request: HTTPConnection) -> Principal:
        found = principal_of(request, scope)
        if not found.may(scope):
            text = required_text(sufficient_scopes(scope))
            raise AccessRefused(HTTPStatus.FORBIDDEN, "insufficient_scope", text, scope)
        address = request.client.host if request.client else "-"
        return replace(found, via=f"{surface} {address}")

    return caller


def principal_of(request: HTTPConnection, scope: Scope = Scope.TASKS) -> Principal:
    """Return the caller: the local user where callers are not authenticated, else the principal of a right token.

    Raises AccessRefused without one; `scope` is what its challenge requests.
    """
    if not request.scope[GUARDED_SCOPE_KEY]:
        return LOCAL
    token = token_of(request)
    if token is None:
        raise AccessRefused(HTTPStatus.UNAUTHORIZED, "invalid_token", "Authentication required", scope)
    return token.principal


def token_of(request: HTTPConnection) -> CallerToken | None:
    """Return the verified token of a request, None without one."""
    user = request.scope.get("user")
    token = user.access_token if isinstance(user, AuthenticatedUser) else None
    return token if isinstance(token, CallerToken) else None

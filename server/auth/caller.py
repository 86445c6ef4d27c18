"""The caller of a request: the principal of its own token, not of the session that it belongs to."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from duetime.scheduler.principal import Principal
from duetime.server.auth.verifier import CallerToken
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST

_caller: ContextVar[Principal] = ContextVar("duetime_caller")


async def identify(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Note whose request is served; one without a verified token is refused, whichever way it came."""
    principal = _principal_of(ctx.request)
    if principal is None:
        raise MCPError(code=INVALID_REQUEST, message="Authentication required")
    before = _caller.set(principal)
    try:
        return await call_next(ctx)
    finally:
        _caller.reset(before)


def request_caller() -> Principal:
    """Return the principal of the request that is being served; raises LookupError where there is none."""
    return _caller.get()


def _principal_of(request: Any) -> Principal | None:
    user = request.scope.get("user") if request is not None else None
    token = user.access_token if isinstance(user, AuthenticatedUser) else None
    return token.principal if isinstance(token, CallerToken) else None

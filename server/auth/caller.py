"""The caller of a request: the principal of its own token, not of the session that it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import lru_cache
from typing import Any

from duetime.scheduler.principal import LOCAL, Principal
from duetime.server.auth.verifier import CallerToken
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST
from starlette.requests import Request

MCP_SURFACE = "mcp"
MAX_ADDRESSES_KEPT = 256

_token: ContextVar[CallerToken] = ContextVar("duetime_token")
_via: ContextVar[str | None] = ContextVar("duetime_via", default=None)


async def identify(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Note whose request is served; one without a verified token is refused, whichever way it came."""
    token = _token_of(ctx.request)
    if token is None:
        raise MCPError(code=INVALID_REQUEST, message="Authentication required")
    before = _token.set(token)
    try:
        return await note_address(ctx, call_next)
    finally:
        _token.reset(before)


async def note_address(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Note from which address a request comes, if it comes over HTTP."""
    before = _via.set(_via_of(ctx.request))
    try:
        return await call_next(ctx)
    finally:
        _via.reset(before)


def note_caller(request: Request, *, guarded: bool) -> bool:
    """Note for the rest of this task whose request it serves; False where that has no verified token and needs one."""
    token = _token_of(request)
    if token is not None:
        _token.set(token)
    _via.set(_via_of(request))
    return token is not None or not guarded


def request_caller() -> Principal:
    """Return the principal of the request that is being served; raises LookupError where there is none."""
    return replace(_token.get().principal, via=_via.get())


def local_caller() -> Principal:
    """Everyone who can reach this server is its one user: stdio belongs to its parent, HTTP to this machine."""
    return _local_by(_via.get())


@lru_cache(maxsize=MAX_ADDRESSES_KEPT)
def _local_by(via: str | None) -> Principal:
    return LOCAL if via is None else replace(LOCAL, via=via)


def request_validity() -> Callable[[], bool]:
    """Return what checks later whether the token of the request that is being served still holds."""
    return _token.get().holds


def _via_of(request: Any) -> str | None:
    client = request.client if request is not None else None
    return f"{MCP_SURFACE} {client.host}" if client else None


def _token_of(request: Any) -> CallerToken | None:
    user = request.scope.get("user") if request is not None else None
    token = user.access_token if isinstance(user, AuthenticatedUser) else None
    return token if isinstance(token, CallerToken) else None

"""Middleware of single methods: however many there are, a request meets those of its own method alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext


class MethodMiddleware:
    """Passes a request through the middleware of its method, the outermost first; other requests go straight on."""

    def __init__(self, middleware: Mapping[str, Sequence[ServerMiddleware[Any]]]) -> None:
        self._innermost_first = {method: tuple(reversed(found)) for method, found in middleware.items()}

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        for middleware in self._innermost_first.get(ctx.method, ()):
            call_next = partial(_called, middleware, call_next)
        return await call_next(ctx)


async def _called(
    middleware: ServerMiddleware[Any], call_next: CallNext, ctx: ServerRequestContext[Any, Any]
) -> HandlerResult:
    return await middleware(ctx, call_next)

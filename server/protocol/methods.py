"""Middleware of single methods: however many there are, a request meets those of its own method alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from duetime.server.protocol.sdk import identity_of, tool_of
from duetime.tools.call_origin import CallOrigin
from duetime.tools.get_task import WAIT
from duetime.tools.registration import StrictTool
from mcp.server import MCPServer
from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.types import CallToolResult, ContentBlock, TextContent
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

_PLAIN: Final = {"name", "arguments", "_meta"}


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


class PlainToolCalls:
    """Answers plain calls of our tools without the SDK's models, by which a call is read twice and an answer thrice.

    A plain call is of the present protocol, and has a name, arguments and metadata alone. The SDK answers all others.
    """

    def __init__(self) -> None:
        self._server: MCPServer[None] | None = None
        self._identity: dict[str, Any] = {}

    def serve(self, server: MCPServer[None]) -> None:
        """Answer calls of the tools that this server has."""
        self._server, self._identity = server, identity_of(server)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        params = ctx.params or {}
        tool = tool_of(self._server, params.get("name")) if self._server else None
        if not isinstance(tool, StrictTool) or not _is_plain(ctx, params):
            return await call_next(ctx)
        return self._in_json(await tool.calls.answer(params["arguments"], CallOrigin.of_request(ctx)))

    def _in_json(self, result: CallToolResult) -> dict[str, Any]:
        """Return an answer as the SDK writes it; a test compares them."""
        answer = {
            "content": [_text(part) for part in result.content],
            "isError": result.is_error,
            "resultType": result.result_type,
            "_meta": {**(result.meta or {}), **self._identity},
        }
        if result.structured_content is not None:
            answer["structuredContent"] = result.structured_content
        return answer


def _text(part: ContentBlock) -> dict[str, str]:
    assert isinstance(part, TextContent), "our tools answer by text alone"
    return {"type": part.type, "text": part.text}


def _is_plain(ctx: ServerRequestContext[Any, Any], params: Mapping[str, Any]) -> bool:
    given = params.get("arguments")
    return (
        ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        and ctx.meta is not None  # the SDK could read it
        and params.keys() == _PLAIN
        and isinstance(given, dict)
        and given.get(WAIT.name) is None  # a wait may be answered by a handle
    )

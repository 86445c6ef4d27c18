"""Refusals of the protocol layer, kept short: the SDK repeats what a caller sent at any length, for a model to read."""

from __future__ import annotations

import json
from typing import Any

from duetime.scheduler.errors import MAX_REFUSAL_BYTES, in_bytes
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError

MAX_DATA_BYTES = 200
"""Of the data of an error, which is left out where it is longer."""

MAX_MESSAGE_BYTES = MAX_REFUSAL_BYTES - MAX_DATA_BYTES - 100
"""Of an error, whose frame and data stay below the bound too."""


async def shorten_refusals(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Cut errors, and the texts of tool calls that failed."""
    try:
        result = await call_next(ctx)
    except MCPError as refused:
        raise _shortened(refused) from refused
    if isinstance(result, dict) and result.get("isError"):
        for part in result.get("content", ()):
            if "text" in part:
                part["text"] = in_bytes(part["text"], MAX_REFUSAL_BYTES)
    return result


def _shortened(refused: MCPError) -> MCPError:
    error = refused.error
    long = error.data is not None and len(json.dumps(error.data, default=str)) > MAX_DATA_BYTES
    message = in_bytes(error.message, MAX_MESSAGE_BYTES)
    return MCPError(code=error.code, message=message, data=None if long else error.data)

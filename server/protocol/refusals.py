"""Refusals of the protocol layer, kept short: the SDK repeats what a caller sent at any length, for a model to read."""

from __future__ import annotations

import json
from typing import Any

from duetime.scheduler.errors import MAX_REFUSAL_BYTES, cut_to_bytes
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INVALID_REQUEST, ErrorData

MAX_ERROR_DATA_BYTES = 200
"""Of the data of an error, which is left out where it is longer."""

MAX_ERROR_MESSAGE_BYTES = MAX_REFUSAL_BYTES - MAX_ERROR_DATA_BYTES - 100
"""Of an error, whose frame and data stay below the bound too."""

NO_MESSAGE = "Not a JSON-RPC 2.0 message: one request, notification or response is expected"

_MAX_ECHO_BYTES = 60
_VALIDATION = "Validation error: "
"""The SDK's words before a text of pydantic, which has addresses."""


async def shorten_refusals(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Cut errors, and the texts of tool calls that failed."""
    try:
        result = await call_next(ctx)
    except MCPError as refused:
        short = shortened(refused.error)
        raise MCPError(code=short.code, message=short.message, data=short.data) from refused
    return shorten_texts(result) if isinstance(result, dict) else result


def shorten_texts(result: dict[str, Any]) -> dict[str, Any]:
    """Cut the texts of a tool call, if it failed; changes and returns `result`."""
    if result.get("isError"):
        for part in result.get("content", ()):
            if "text" in part:
                part["text"] = cut_to_bytes(part["text"], MAX_REFUSAL_BYTES)
    return result


def shortened(error: ErrorData) -> ErrorData:
    """Return an error of which a model can read all: cut, and without what pydantic says of it."""
    if error.message.startswith(_VALIDATION):
        return ErrorData(code=INVALID_REQUEST, message=NO_MESSAGE)
    short = ErrorData(code=error.code, message=cut_to_bytes(error.message, MAX_ERROR_MESSAGE_BYTES))
    data = _cut(error.data)
    if data is not None and len(json.dumps(data, default=str)) <= MAX_ERROR_DATA_BYTES:
        short.data = data
    return short


def _cut(data: Any) -> Any:
    """Cut the texts in the data of an error: the version of the protocol, say, that a caller invented."""
    if isinstance(data, str):
        return cut_to_bytes(data, _MAX_ECHO_BYTES)
    if isinstance(data, dict):
        return {key: _cut(value) for key, value in data.items()}
    return [_cut(value) for value in data] if isinstance(data, list) else data

"""Plain calls of our tools, which go past the SDK: its models read a call twice and an answer three times.

A plain call is of the present protocol, and has a name, arguments and metadata alone. The SDK serves all others, and
those whose spans something keeps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from duetime.scheduler.task import Json
from duetime.server.protocol.refusals import shorten_texts
from duetime.server.protocol.sdk import identity_of, keeps_spans, tool_of
from duetime.tools.act_on_task import ACT_ON_TASK
from duetime.tools.call_origin import CallOrigin
from duetime.tools.get_task import WAIT
from duetime.tools.registration import StrictTool, ToolCalls
from mcp.server import MCPServer
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request
from mcp.types import CallToolResult, ContentBlock, JSONRPCRequest, RequestId, TextContent
from mcp.types.methods import validate_client_request
from pydantic import ValidationError

CALL_METHOD: Final = "tools/call"
_PLAIN: Final = {"name", "arguments", "_meta"}


@dataclass(frozen=True, slots=True)
class PlainCall:
    """A call of one tool, as a request has it."""

    request_id: RequestId
    tool: ToolCalls
    arguments: Mapping[str, Json]
    origin: CallOrigin


class PlainToolCalls:
    """Finds the plain calls of the tools of a server, and writes their answers as the SDK does."""

    def __init__(self, server: MCPServer[None]) -> None:
        self._server, self._identity = server, identity_of(server)

    def of(self, request: JSONRPCRequest, headers: Mapping[str, str] | None = None) -> PlainCall | None:
        """Return the call of a request, None where the SDK has to serve it; over HTTP `headers` have to agree."""
        params = request.params or {}
        if request.method != CALL_METHOD or params.keys() != _PLAIN or keeps_spans():
            return None
        tool, given, meta = tool_of(self._server, params["name"]), params["arguments"], params["_meta"]
        if not isinstance(tool, StrictTool) or not isinstance(given, dict) or not _is_plain(tool, given):
            return None
        route = classify_inbound_request({"method": request.method, "params": params}, headers=headers)
        if not isinstance(route, InboundModernRoute) or not _is_valid(params, route.protocol_version):
            return None
        return PlainCall(request.id, tool.calls, given, CallOrigin.of_metadata(meta, route.client_info))

    def in_json(self, call: PlainCall, result: CallToolResult) -> bytes:
        """Return the response with an answer, as the SDK writes it; a test compares them."""
        answer = {
            "content": [_text(part) for part in result.content],
            "isError": result.is_error,
            "resultType": result.result_type,
            "_meta": {**(result.meta or {}), **self._identity},
        }
        if result.structured_content is not None:
            answer["structuredContent"] = result.structured_content
        response = {"jsonrpc": "2.0", "id": call.request_id, "result": shorten_texts(answer)}
        return json.dumps(response, separators=(",", ":")).encode()


def _is_plain(tool: StrictTool, given: Mapping[str, Any]) -> bool:
    """Whether nothing but the tool looks at a call: an approval needs a card, a wait may be answered by a handle."""
    return tool.name != ACT_ON_TASK.name and given.get(WAIT.name) is None


def _is_valid(params: Mapping[str, Any], version: str) -> bool:
    """Whether the SDK takes the parameters of a call: it refuses one whose metadata it cannot read."""
    try:
        validate_client_request(CALL_METHOD, version, params)
    except ValidationError:
        return False
    return True


def _text(part: ContentBlock) -> dict[str, str]:
    assert isinstance(part, TextContent), "our tools answer by text alone"
    return {"type": part.type, "text": part.text}

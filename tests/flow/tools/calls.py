"""Calls of tools without a client: what a model reads, and the structure beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from duetime.scheduler.service import Scheduler
from duetime.tools.registration import make_tools
from mcp.types import CallToolResult, TextContent

Ask = Callable[..., tuple[str, dict[str, Any]]]

CONTEXT: Any = None  # what the SDK hands to tools; ours ask it nothing


def asked_of(scheduler: Scheduler) -> Ask:
    """Return a function that calls a tool, and returns its text and its structured content."""
    tools = {tool.name: tool for tool in make_tools(lambda: scheduler)}

    def ask(tool: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
        answer = asyncio.run(tools[tool].run(arguments, CONTEXT))
        assert isinstance(answer, CallToolResult)
        [part] = answer.content
        assert isinstance(part, TextContent)
        assert answer.structured_content is not None, part.text
        return part.text, answer.structured_content

    return ask

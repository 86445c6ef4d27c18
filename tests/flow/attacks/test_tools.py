"""Attacks over MCP: each argument of each tool, and messages that are none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.flow.attacks import hostile
from tests.flow.attacks.target import Target

pytestmark = pytest.mark.anyio

TOOLS = ("schedule_task", "list_tasks", "get_task", "reschedule_task", "cancel_task", "act_on_task")


async def arguments_of(target: Target) -> AsyncIterator[tuple[str, dict[str, Any], str]]:
    """Yield each tool with what it needs, and each of its arguments; each id is one of another tenant."""
    listed = (await target.site.modern(target.admin_key, "tools/list")).json()["result"]["tools"]
    asked = {"task_id": target.task_id, "title": "x", "when": "in 1 hour", "action": "run_now", "undo": target.undo}
    for tool in listed:
        schema = tool["inputSchema"]
        given = {name: asked[name] for name in schema.get("required", []) if name in asked}
        for argument in schema.get("properties", {}):
            yield tool["name"], given, argument


async def test_no_argument_of_a_tool_breaks_anything(target: Target) -> None:
    """The arguments are those that the server itself names."""
    async for tool, given, argument in arguments_of(target):
        for value in hostile.values(argument):
            await target.call(tool, {**given, argument: value})
    await target.survives()

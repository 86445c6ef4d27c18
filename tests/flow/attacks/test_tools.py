"""Attacks over MCP: each argument of each tool, and messages that are none."""

from __future__ import annotations

import pytest

from tests.flow.attacks import hostile
from tests.flow.attacks.target import Target

pytestmark = pytest.mark.anyio

TOOLS = ("schedule_task", "list_tasks", "get_task", "reschedule_task", "cancel_task", "act_on_task")


async def test_no_argument_of_a_tool_breaks_anything(target: Target) -> None:
    """The arguments are those that the server itself names; each id is one of another tenant."""
    listed = (await target.site.modern(target.admin_key, "tools/list")).json()["result"]["tools"]
    asked = {"task_id": target.task_id, "title": "x", "when": "in 1 hour", "action": "run_now", "undo": target.undo}
    for tool in listed:
        schema = tool["inputSchema"]
        given = {name: asked[name] for name in schema.get("required", []) if name in asked}
        for argument in schema.get("properties", {}):
            for value in hostile.values(argument):
                await target.call(tool["name"], {**given, argument: value})
    await target.survives()

"""Attacks over MCP: each argument of each tool, and messages that are none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.flow.attacks import hostile
from tests.flow.attacks.target import Target

pytestmark = pytest.mark.anyio

ATTACK, PREFIXED = object(), object()
"""The places of a hostile value: as it is, and as the id in the address of a task."""

TEMPLATE = "duetime://tasks/{task_id}"
SURFACES: dict[str, list[dict[str, Any]]] = {
    "resources/read": [{"uri": ATTACK}, {"uri": PREFIXED}],
    "prompts/get": [{"name": ATTACK}, {"name": "plan_my_day", "arguments": ATTACK}],
    "completion/complete": [
        {"ref": ATTACK, "argument": {"name": "task_id", "value": "t_"}},
        {"ref": {"type": "ref/resource", "uri": TEMPLATE}, "argument": {"name": "task_id", "value": ATTACK}},
        {"ref": {"type": "ref/resource", "uri": ATTACK}, "argument": {"name": ATTACK, "value": "t_"}},
    ],
    "resources/subscribe": [{"uri": ATTACK}, {"uri": PREFIXED}],
    "resources/unsubscribe": [{"uri": ATTACK}],
}
"""Parameters of what is no tool, with the place of a hostile value in them."""


async def arguments_of(target: Target) -> AsyncIterator[tuple[str, dict[str, Any], str]]:
    """Yield each tool with what it needs, and each of its arguments; each id is one of another tenant."""
    listed = (await target.site.modern(target.admin_key, "tools/list")).json()["result"]["tools"]
    asked = {"task_id": target.task_id, "title": "x", "when": "in 1 hour", "action": "run_now", "undo": target.undo}
    for tool in listed:
        schema = tool["inputSchema"]
        given = {name: asked[name] for name in schema.get("required", []) if name in asked}
        for argument in schema.get("properties", {}):
            yield tool["name"], given, argument


@pytest.mark.random_walk
async def test_no_argument_of_a_tool_breaks_anything(target: Target) -> None:
    """The arguments are those that the server itself names."""
    async for tool, given, argument in arguments_of(target):
        for value in hostile.values(tool, argument):
            await target.call(tool, {**given, argument: value})
    await target.survives()


def armed(template: Any, value: Any) -> Any:
    """Return parameters with the value in its place."""
    if template is ATTACK:
        return value
    if template is PREFIXED:
        return f"duetime://tasks/{value}"
    return {name: armed(each, value) for name, each in template.items()} if isinstance(template, dict) else template


@pytest.mark.random_walk
@pytest.mark.parametrize("method", SURFACES)
async def test_no_resource_prompt_or_completion_breaks_anything(target: Target, method: str) -> None:
    """Subscriptions are those of clients of 2025, which have a session."""
    session = await target.site.session(target.key) if "subscribe" in method else {}
    for template in SURFACES[method]:
        for value in [*hostile.values(method, "uri"), target.task_id, [target.task_id], {"task_id": target.task_id}]:
            await target.ask(method, armed(template, value), session)
    await target.survives()

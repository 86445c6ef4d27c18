"""Lesson 8: `cancel_task` can be taken back for half a minute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent

pytestmark = pytest.mark.anyio


async def cancelled(client: Client) -> dict[str, Any]:
    made = await client.call_tool("schedule_task", {"title": "Call John", "when": "tomorrow 9am"})
    assert made.structured_content is not None
    gone = await client.call_tool("cancel_task", {"task_id": made.structured_content["id"], "reason": "he called"})
    assert gone.structured_content is not None
    return dict(gone.structured_content)


async def test_a_cancelled_task_offers_to_be_brought_back(client: Client) -> None:
    task = await cancelled(client)

    assert task["state"] == "cancelled"
    assert task["undo"].startswith("u_")


async def test_undo_brings_it_back_at_its_old_time(client: Client, turn: Callable[..., None]) -> None:
    task = await cancelled(client)
    turn(seconds=20)
    back = await client.call_tool("act_on_task", {"task_id": task["id"], "action": "undo", "undo": task["undo"]})

    assert back.structured_content is not None
    assert back.structured_content["state"] == "scheduled"
    assert back.structured_content["when"]["text"] == "Sun 22 Nov 2026 09:00"


async def test_after_half_a_minute_it_is_too_late(client: Client, turn: Callable[..., None]) -> None:
    task = await cancelled(client)
    turn(seconds=60)
    late = await client.call_tool("act_on_task", {"task_id": task["id"], "action": "undo", "undo": task["undo"]})

    assert late.is_error
    text = late.content[0]
    assert isinstance(text, TextContent)
    assert "Schedule a new task with schedule_task." in text.text

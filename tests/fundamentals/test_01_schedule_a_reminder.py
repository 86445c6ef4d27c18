"""Lesson 1: `schedule_task` needs a title and, for a reminder, a time in the user's own words."""

from __future__ import annotations

import pytest
from mcp import Client

pytestmark = pytest.mark.anyio


async def test_a_client_finds_seven_tools_and_the_one_for_buttons(client: Client) -> None:
    listed = await client.list_tools()

    names = [tool.name for tool in listed.tools]
    assert names == [
        "schedule_task",
        "list_tasks",
        "get_task",
        "reschedule_task",
        "cancel_task",
        "change_tasks",
        "send_event",
        "act_on_task",
    ]


async def test_a_reminder_is_stored_and_can_be_read_by_its_id(client: Client) -> None:
    made = await client.call_tool("schedule_task", {"title": "Call John", "when": "in 2 hours"})

    assert made.structured_content is not None
    assert made.structured_content["created"] is True
    assert made.structured_content["state"] == "scheduled"
    assert made.structured_content["when"]["utc"] == "2026-11-22T01:00:00Z"

    read = await client.call_tool("get_task", {"task_id": made.structured_content["id"]})
    assert read.structured_content is not None
    assert read.structured_content["title"] == "Call John"

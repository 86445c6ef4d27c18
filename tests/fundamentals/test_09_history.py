"""Lesson 9: everything that happened to a task can be read: who did what, when and why."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from mcp import Client
from mcp.types import TextResourceContents

pytestmark = pytest.mark.anyio


async def test_the_history_says_who_did_what_and_why(client: Client, turn: Callable[..., None]) -> None:
    made = await client.call_tool("schedule_task", {"title": "Call John", "when": "tomorrow 9am"})
    assert made.structured_content is not None
    task_id = made.structured_content["id"]
    turn(minutes=5)
    await client.call_tool("reschedule_task", {"task_id": task_id, "when": "tomorrow 11am"})
    turn(minutes=5)
    await client.call_tool("cancel_task", {"task_id": task_id, "reason": "he called"})

    read = await client.call_tool("get_task", {"task_id": task_id, "history": True})

    assert read.structured_content is not None
    events = read.structured_content["history"]["events"]
    assert [(event["at"], event["kind"], event["actor"]) for event in events] == [
        ("2026-11-21T23:10:00Z", "cancelled", "local"),
        ("2026-11-21T23:05:00Z", "rescheduled", "local"),
        ("2026-11-21T23:00:00Z", "created", "local"),
    ]
    assert events[0]["reason"] == "he called"


async def test_a_task_is_also_a_resource(client: Client) -> None:
    made = await client.call_tool("schedule_task", {"title": "Call John", "when": "tomorrow 9am"})
    assert made.structured_content is not None

    read = await client.read_resource(f"duetime://tasks/{made.structured_content['id']}")

    content = read.contents[0]
    assert isinstance(content, TextResourceContents)
    assert json.loads(content.text)["title"] == "Call John"

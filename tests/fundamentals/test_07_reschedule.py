"""Lesson 7: `reschedule_task` changes what is given and leaves the rest; a revision guards against changing blindly."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent

pytestmark = pytest.mark.anyio


async def made(client: Client, **arguments: object) -> dict[str, Any]:
    answer = await client.call_tool("schedule_task", {"title": "Call John", **arguments})
    assert answer.structured_content is not None
    return dict(answer.structured_content)


async def test_given_arguments_change_and_the_rest_stays(client: Client) -> None:
    task = await made(client, when="tomorrow 9am")
    moved = await client.call_tool("reschedule_task", {"task_id": task["id"], "when": "tomorrow 11am"})

    assert moved.structured_content is not None
    assert moved.structured_content["when"]["text"] == "Sun 22 Nov 2026 11:00"
    assert moved.structured_content["title"] == "Call John"
    assert moved.structured_content["revision"] == task["revision"] + 1


async def test_a_paused_task_waits_until_it_is_resumed(client: Client) -> None:
    task = await made(client, repeat="every day at 9:00")
    paused = await client.call_tool("reschedule_task", {"task_id": task["id"], "pause": True})
    resumed = await client.call_tool("reschedule_task", {"task_id": task["id"], "pause": False})

    assert paused.structured_content is not None
    assert paused.structured_content["paused"] is True
    assert resumed.structured_content is not None
    assert "paused" not in resumed.structured_content


async def test_one_occurrence_can_be_skipped(client: Client) -> None:
    task = await made(client, repeat="every day at 9:00")
    skipped = await client.call_tool("reschedule_task", {"task_id": task["id"], "skip_next": True})

    assert skipped.structured_content is not None
    assert skipped.structured_content["when"]["text"] == "Mon 23 Nov 2026 09:00"


async def test_an_old_revision_is_refused_and_the_answer_says_what_changed(client: Client) -> None:
    task = await made(client, when="tomorrow 9am")
    await client.call_tool("reschedule_task", {"task_id": task["id"], "when": "tomorrow 11am"})
    late = await client.call_tool(
        "reschedule_task", {"task_id": task["id"], "revision": task["revision"], "title": "Call Jane"}
    )

    assert late.is_error
    text = late.content[0]
    assert isinstance(text, TextContent)
    assert text.text.startswith(f"revision: {task['id']} is at revision {task['revision'] + 1}")

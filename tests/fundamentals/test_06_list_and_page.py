"""Lesson 6: `list_tasks` gives a line each, counts by state, and a cursor for the next page."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.types import CallToolResult, TextContent

pytestmark = pytest.mark.anyio


async def plan(client: Client) -> None:
    for hour, title in enumerate(["Call John", "Buy milk", "Call Jane"], start=1):
        asked = {"title": title, "when": f"in {hour} hours", "labels": ["phone"] if "Call" in title else []}
        assert not (await client.call_tool("schedule_task", asked)).is_error


def text_of(answer: CallToolResult) -> str:
    part = answer.content[0]
    assert isinstance(part, TextContent)
    return part.text


async def titles(client: Client, **arguments: object) -> list[str]:
    listed = await client.call_tool("list_tasks", arguments)
    assert listed.structured_content is not None
    return [row["title"] for row in listed.structured_content["tasks"]]


async def test_tasks_come_in_the_order_in_which_they_are_due(client: Client) -> None:
    await plan(client)

    assert await titles(client) == ["Call John", "Buy milk", "Call Jane"]


async def test_pages_follow_the_cursor_without_gaps(client: Client) -> None:
    await plan(client)

    first = await client.call_tool("list_tasks", {"limit": 2})
    assert first.structured_content is not None
    assert first.structured_content["counts"] == {"scheduled": 3}
    assert await titles(client, limit=2, cursor=first.structured_content["cursor"]) == ["Call Jane"]


async def test_filters_narrow_the_list(client: Client) -> None:
    await plan(client)

    assert await titles(client, query="milk") == ["Buy milk"]
    assert await titles(client, label="phone") == ["Call John", "Call Jane"]
    assert await titles(client, after="2026-11-21T18:30", before="in 3 hours") == ["Buy milk"]
    assert await titles(client, state="succeeded") == []


async def test_a_bound_is_past_unless_it_says_otherwise_and_the_answer_says_how_it_was_read(client: Client) -> None:
    await plan(client)

    assert await titles(client, after="friday") == ["Call John", "Buy milk", "Call Jane"]
    assert await titles(client, after="today noon", before="19:30") == ["Call John", "Buy milk"]
    assert await titles(client, before="last night") == []
    said = text_of(await client.call_tool("list_tasks", {"after": "friday", "before": "friday"}))
    assert "It lists what is due from Fri 27 Nov 2026 00:00 to Sat 28 Nov 2026 00:00." in said


async def test_open_tasks_are_those_still_to_come_and_ended_ones_the_others(client: Client) -> None:
    await plan(client)
    listed = await client.call_tool("list_tasks", {"query": "john"})
    assert listed.structured_content is not None
    await client.call_tool("cancel_task", {"task_id": listed.structured_content["tasks"][0]["id"]})

    assert await titles(client, state="open") == ["Buy milk", "Call Jane"]
    assert await titles(client, state="ended") == ["Call John"]
    assert await titles(client) == ["Buy milk", "Call Jane", "Call John"]


async def test_an_empty_answer_distinguishes_a_filter_without_matches_from_having_no_tasks(client: Client) -> None:
    nothing = await client.call_tool("list_tasks")
    await plan(client)
    filtered = await client.call_tool("list_tasks", {"query": "dentist"})

    assert text_of(nothing).splitlines()[2].startswith("schedule_task(")
    assert text_of(filtered).splitlines()[::2] == [
        "No task matches this filter.",
        "list_tasks() without a filter lists all.",
    ]

"""Lesson 10: an error says what is wrong with which argument, what is accepted, and shows a corrected example."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.types import TextContent

pytestmark = pytest.mark.anyio


async def error_of(client: Client, tool: str, **arguments: object) -> str:
    answer = await client.call_tool(tool, arguments)
    assert answer.is_error
    assert answer.structured_content is None
    text = answer.content[0]
    assert isinstance(text, TextContent)
    return text.text


async def test_a_misspelt_argument_is_refused_with_the_nearest_one(client: Client) -> None:
    said = await error_of(client, "schedule_task", title="Call John", when="tomorrow 9am", time_zone="Asia/Tokyo")

    assert said.startswith("time_zone: schedule_task has no such argument; did you mean timezone.")


async def test_everything_that_is_wrong_is_said_at_once(client: Client) -> None:
    said = await error_of(client, "schedule_task", title=7, when="soon", max_runs="many", colour="red")

    lines = said.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["title", "max_runs", "colour", "when"]
    assert lines[0] == "title: a number is not text. Accepted: 1 to 200 visible characters. Example: title='Call John'"


async def test_a_time_in_the_past_names_the_nearest_one_to_come(client: Client) -> None:
    said = await error_of(client, "schedule_task", title="Call John", when="today 9am")

    assert said.startswith("when:")
    assert "past" in said


async def test_an_unknown_id_is_answered_with_the_closest_and_never_acted_upon(client: Client) -> None:
    made = await client.call_tool("schedule_task", {"title": "Call John", "when": "tomorrow 9am"})
    assert made.structured_content is not None
    right = made.structured_content["id"]
    wrong = right[:-1] + ("0" if right[-1] != "0" else "1")

    said = await error_of(client, "cancel_task", task_id=wrong)

    assert right in said
    assert "Call John" in said

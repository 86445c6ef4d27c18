"""Lesson 2: the answer says back the time that was understood, in the user's zone, and what time it is now."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.types import TextContent

pytestmark = pytest.mark.anyio


async def test_the_answer_says_which_time_was_understood(client: Client) -> None:
    made = await client.call_tool("schedule_task", {"title": "Call John", "when": "tuesday 9:00"})

    assert made.structured_content is not None
    assert made.structured_content["when"] == {
        "utc": "2026-11-24T15:00:00Z",
        "local": "2026-11-24T09:00:00-06:00",
        "timezone": "America/Edmonton",
        "text": "Tue 24 Nov 2026 09:00",
        "relative": "in 2 d 16 h",
    }
    assert made.structured_content["now"] == "2026-11-21T23:00:00Z"


async def test_text_and_structured_content_say_the_same(client: Client) -> None:
    made = await client.call_tool("schedule_task", {"title": "Call John", "when": "tuesday 9:00"})

    assert made.structured_content is not None
    text = made.content[0]
    assert isinstance(text, TextContent)
    for part in (made.structured_content["id"], "Call John", "Tue 24 Nov 2026 09:00 Edmonton time, in 3 days"):
        assert part in text.text


async def test_another_zone_can_be_named(client: Client) -> None:
    asked = {"title": "Call Aiko", "when": "tomorrow 9am", "timezone": "Asia/Tokyo"}
    made = await client.call_tool("schedule_task", asked)

    assert made.structured_content is not None
    assert made.structured_content["when"]["local"] == "2026-11-23T09:00:00+09:00"
    assert made.structured_content["when"]["utc"] == "2026-11-23T00:00:00Z"

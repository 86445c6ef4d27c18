"""Lesson 3: `repeat` makes a task recur; it keeps its wall time when the clocks change."""

from __future__ import annotations

import pytest
from mcp import Client

pytestmark = pytest.mark.anyio


async def test_a_recurrence_in_words_says_its_next_occurrences(client: Client) -> None:
    made = await client.call_tool("schedule_task", {"title": "Stand-up", "repeat": "every weekday at 9:00"})

    assert made.structured_content is not None
    assert made.structured_content["repeat"]["next"] == [
        "2026-11-23T09:00:00-06:00",
        "2026-11-24T09:00:00-06:00",
        "2026-11-25T09:00:00-06:00",
        "2026-11-26T09:00:00-06:00",
        "2026-11-27T09:00:00-06:00",
    ]


async def test_nine_o_clock_stays_nine_o_clock_through_daylight_saving(client: Client) -> None:
    asked = {"title": "Stand-up", "repeat": "every day at 9:00", "when": "2027-03-13", "timezone": "America/New_York"}
    made = await client.call_tool("schedule_task", asked)

    assert made.structured_content is not None
    assert made.structured_content["repeat"]["next"][:2] == ["2027-03-13T09:00:00-05:00", "2027-03-14T09:00:00-04:00"]


async def test_a_recurrence_can_end(client: Client) -> None:
    asked = {"title": "Medicine", "repeat": "every day at 9:00", "until": "2026-11-24T12:00"}
    made = await client.call_tool("schedule_task", asked)

    assert made.structured_content is not None
    assert made.structured_content["repeat"]["next"] == [
        "2026-11-22T09:00:00-06:00",
        "2026-11-23T09:00:00-06:00",
        "2026-11-24T09:00:00-06:00",
    ]

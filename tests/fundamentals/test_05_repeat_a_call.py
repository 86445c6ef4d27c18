"""Lesson 5: repeating a call is harmless, so an agent whose answer was lost simply calls again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mcp import Client
from mcp.types import TextContent

pytestmark = pytest.mark.anyio

CALL = {"title": "Call John", "when": "2026-11-24T09:00"}


async def test_the_same_call_within_a_minute_returns_the_first_task(client: Client, turn: Callable[..., None]) -> None:
    first = await client.call_tool("schedule_task", CALL)
    turn(seconds=50)
    again = await client.call_tool("schedule_task", CALL)

    assert first.structured_content is not None
    assert again.structured_content is not None
    assert again.structured_content["created"] is False
    assert again.structured_content["id"] == first.structured_content["id"]


async def test_later_the_same_words_are_a_new_wish_and_the_likeness_is_mentioned(
    client: Client, turn: Callable[..., None]
) -> None:
    first = await client.call_tool("schedule_task", CALL)
    turn(seconds=70)
    again = await client.call_tool("schedule_task", CALL)

    assert first.structured_content is not None
    assert again.structured_content is not None
    assert again.structured_content["created"] is True
    assert first.structured_content["id"] in again.structured_content["warnings"][0]


async def test_a_key_of_ones_own_holds_as_long_as_the_task(client: Client, turn: Callable[..., None]) -> None:
    keyed = {**CALL, "idempotency_key": "john-tuesday"}
    await client.call_tool("schedule_task", keyed)
    turn(hours=5)
    again = await client.call_tool("schedule_task", keyed)

    assert again.structured_content is not None
    assert again.structured_content["created"] is False


async def test_the_same_key_for_something_else_is_refused_with_the_difference(client: Client) -> None:
    await client.call_tool("schedule_task", {**CALL, "idempotency_key": "john-tuesday"})
    other = await client.call_tool("schedule_task", {**CALL, "title": "Call Jane", "idempotency_key": "john-tuesday"})

    assert other.is_error
    text = other.content[0]
    assert isinstance(text, TextContent)
    assert "title was" in text.text
    assert "Call John" in text.text
    assert "Call Jane" in text.text

"""Lesson 11: when a task is due it runs, subscribers are told, and the outcome waits in the inbox to be read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from duetime.server.app import App, build
from duetime.server.settings.model import Settings
from duetime.server.transport.serve_http import connect
from mcp import Client
from mcp.types import TextResourceContents

pytestmark = pytest.mark.anyio


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    """Start everything: here the clock is the real one, and the runner runs."""
    settings = Settings(
        database_url=f"sqlite:///{tmp_path / 'duetime.db'}", desktop_notifications="off", timezone="America/Edmonton"
    )
    with build(settings) as app:
        app.start()
        yield app


async def inbox(client: Client) -> list[dict[str, Any]]:
    read = await client.read_resource("duetime://inbox")
    content = read.contents[0]
    assert isinstance(content, TextResourceContents)
    messages: list[dict[str, Any]] = json.loads(content.text)["messages"]
    return messages


async def test_a_reminder_that_is_due_reaches_the_inbox_and_is_mentioned_until_it_is_read(app: App) -> None:
    async with Client(connect(app)) as client:
        messages: list[dict[str, Any]] = []
        async with client.listen(resource_subscriptions=["duetime://inbox"]) as events:
            await client.call_tool("schedule_task", {"title": "Stretch", "when": "in 1 second"})
            with anyio.fail_after(60):
                async for _ in events:  # one may come before there is something to read
                    if messages := await inbox(client):
                        break

        [message] = messages
        assert (message["title"], message["state"]) == ("Stretch", "succeeded")

        first = await client.call_tool("list_tasks")
        second = await client.call_tool("list_tasks")
        await client.call_tool("get_task", {"task_id": message["task_id"], "history": True})
        third = await client.call_tool("list_tasks")
        assert first.structured_content is not None
        assert second.structured_content is not None
        assert third.structured_content is not None
        assert [news["title"] for news in first.structured_content["unread"]] == ["Stretch"]
        assert second.structured_content["unread_count"] == 1
        assert "unread" not in third.structured_content

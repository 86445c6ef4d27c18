"""Lesson 4: `dry_run` says what would be scheduled, and stores nothing."""

from __future__ import annotations

import pytest
from mcp import Client

pytestmark = pytest.mark.anyio


async def test_a_dry_run_answers_like_the_real_thing_and_leaves_nothing_behind(client: Client) -> None:
    asked = {"title": "Report", "repeat": "every monday at 8:00", "dry_run": True}
    tried = await client.call_tool("schedule_task", asked)

    assert tried.structured_content is not None
    assert tried.structured_content["when"]["text"] == "Mon 23 Nov 2026 08:00"
    assert tried.structured_content["id"] == "dry-run"
    assert tried.structured_content["warnings"] == ["dry run: nothing was stored"]
    assert "created" not in tried.structured_content
    assert "nothing was stored" in tried.content[0].model_dump_json()

    none = await client.call_tool("cancel_task", {"task_id": "dry-run"})
    assert none.is_error
    assert "no task 'dry-run'. list_tasks shows your tasks and their ids." in none.content[0].model_dump_json()

    listed = await client.call_tool("list_tasks")
    assert listed.structured_content is not None
    assert listed.structured_content["tasks"] == []

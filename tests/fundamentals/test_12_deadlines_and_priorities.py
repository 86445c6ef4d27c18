"""Lesson 12: a task can be urgent, have to be finished by a time, say how long it takes, and hold what is limited."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client
from mcp.types import TextContent

pytestmark = pytest.mark.anyio


async def scheduled(client: Client, **arguments: object) -> dict[str, Any]:
    answer = await client.call_tool("schedule_task", {"title": "Send the report", **arguments})
    assert answer.structured_content is not None
    return dict(answer.structured_content)


async def refusal(client: Client, **arguments: object) -> str:
    answer = await client.call_tool("schedule_task", {"title": "Send the report", **arguments})
    text = answer.content[0]
    assert answer.is_error
    assert isinstance(text, TextContent)
    return text.text


async def test_a_deadline_is_a_time_and_is_said_back(client: Client) -> None:
    task = await scheduled(client, when="tomorrow 9am", deadline="tomorrow 17:00", priority="high")

    assert task["priority"] == "high"
    assert task["deadline"]["text"] == "Sun 22 Nov 2026 17:00"
    assert task["deadline"]["type"] == "soft"


async def test_a_bare_duration_is_counted_from_when_the_task_is_due(client: Client) -> None:
    task = await scheduled(client, when="tomorrow 9am", deadline="2 hours", deadline_type="hard")

    assert task["deadline"]["text"] == "Sun 22 Nov 2026 11:00"
    assert task["deadline"]["type"] == "hard"


async def test_each_run_of_a_recurring_task_has_its_own_deadline(client: Client) -> None:
    said = await refusal(client, repeat="every day at 9:00", deadline="friday 17:00")
    task = await scheduled(client, repeat="every day at 9:00", deadline="17:00")

    assert said.endswith("Example: deadline='8 h'")
    assert task["deadline"]["text"] == "Sun 22 Nov 2026 17:00"


async def test_a_hard_deadline_that_cannot_be_met_is_refused_and_a_soft_one_is_warned_of(client: Client) -> None:
    impossible = {"when": "tomorrow 9am", "deadline": "tomorrow 9:10", "estimate": "20 min"}
    said = await refusal(client, **impossible, deadline_type="hard")
    task = await scheduled(client, **impossible, deadline_type="soft")

    assert said.startswith("deadline: it leaves 10 min after the run is due (Sun 22 Nov 2026 09:00")
    assert any("cannot be met" in warning for warning in task["warnings"])


async def test_a_task_holds_what_it_needs_while_it_runs(client: Client) -> None:
    task = await scheduled(client, when="tomorrow 9am", needs={"gpu": 1, "key:customer-42": 1})
    unknown = await refusal(client, when="tomorrow 9am", needs={"gpus": 1})
    too_much = await refusal(client, when="tomorrow 9am", needs={"gpu": 3})

    assert task["needs"] == {"gpu": 1, "key:customer-42": 1}
    assert unknown == (
        "needs: there is no pool 'gpus'. Accepted: gpu (2 slots), key:<anything> (1 slot each). "
        "Example: needs={'gpu': 1}"
    )
    assert "2 at most" in too_much


async def test_urgency_can_be_changed_until_the_task_has_started(client: Client) -> None:
    task = await scheduled(client, when="tomorrow 9am", deadline="2 hours")
    changed = await client.call_tool(
        "reschedule_task", {"task_id": task["id"], "when": "tomorrow 10:00", "priority": "critical"}
    )

    assert changed.structured_content is not None
    assert changed.structured_content["priority"] == "critical"
    assert changed.structured_content["deadline"]["text"] == "Sun 22 Nov 2026 12:00"

"""Lesson 13: a function with `@handler` is an action that agents can schedule; its payload is checked at once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from duetime import Context, Done, Retry, handler
from duetime.scheduler.task import State
from duetime.server.app import App, build
from duetime.server.settings.model import Settings
from duetime.server.transport.serve_http import connect
from mcp import Client
from pydantic import BaseModel, Field

from tests.flow.waiting import eventually

pytestmark = pytest.mark.anyio


class Resize(BaseModel):
    """The payload that an agent gives: the card of the action is made from it."""

    path: str
    width: int = Field(default=800, ge=1, le=4000)


@handler("resize", payload=Resize, time_limit=5)
def resize(ctx: Context, payload: Resize) -> Done | Retry:
    """Make an image smaller; the first attempt finds the disk full."""
    if ctx.attempt == 1:
        return Retry("the disk is full")
    return Done(summary=f"{payload.path} is {payload.width} wide", result={"width": payload.width})


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    settings = Settings(database_url=f"sqlite:///{tmp_path / 'duetime.db'}", desktop_notifications="off")
    with build(settings, handlers=[resize]) as app:
        app.start()
        yield app


async def test_a_payload_that_the_model_refuses_is_never_stored(app: App) -> None:
    async with Client(connect(app)) as client:
        refused = await client.call_tool(
            "schedule_task", {"title": "Shrink", "when": "in 1 hour", "action": "resize", "payload": {"width": 9000}}
        )

    assert refused.is_error
    assert "payload.path" in str(refused.content)
    assert "payload.width" in str(refused.content)
    assert app.scheduler.tasks.list().views == ()


async def test_a_failed_run_is_tried_again_and_every_attempt_keeps_its_reason(app: App) -> None:
    async with Client(connect(app)) as client:
        made = await client.call_tool(
            "schedule_task",
            {
                "title": "Shrink the logo",
                "when": "now",
                "action": "resize",
                "payload": {"path": "logo.png"},
                "retry": {"max_attempts": 2, "backoff_seconds": 1},
            },
        )
        assert made.structured_content is not None, made.content
        task_id = made.structured_content["id"]

        eventually(lambda: app.scheduler.get(task_id).record.run.state is State.SUCCEEDED, "the second attempt")

    assert app.scheduler.get(task_id).record.run.summary == "logo.png is 800 wide"
    assert [attempt.reason for attempt in app.scheduler.past.attempts(task_id)] == ["the disk is full", None]

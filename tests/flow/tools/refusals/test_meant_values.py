"""Values as weaker models write them: what has one meaning is read, and the example of the rest keeps what was said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.tools.registration import make_tools

from tests.flow.tools.calls import CONTEXT

Say = Callable[..., str]
ORDER = {"url": "https://example.com/order", "condition": "status == 'shipped'"}


@pytest.fixture
def say(store: Store) -> Say:
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    tools = {tool.name: tool for tool in make_tools(lambda: Scheduler(store, planner))}

    def call(tool: str = "schedule_task", **arguments: Any) -> str:
        return str(asyncio.run(tools[tool].run({"title": "A", **arguments}, CONTEXT)).content[0].text)

    return call


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"when": "tomorrow", "approval": "yes"}, "Waiting for approval by the user"),
        ({"when": "tomorrow", "dry_run": "yes"}, "Dry run, nothing was stored"),
        ({"action": "watch", "payload": {**ORDER, "every": 900}}, "every 15 min until"),
        (
            {"steps": [{"name": "a", "action": "webhook", "payload": '{"url": "https://example.com/x"}'}]},
            "Chain: 0 of 1 step done",
        ),
    ],
)
def test_a_value_with_one_meaning_is_read(say: Say, arguments: dict[str, Any], said: str) -> None:
    assert said in say(**arguments)


@pytest.mark.parametrize(
    ("arguments", "example"),
    [
        ({"when": "tomorrow", "payload": "Bring it"}, "payload={'message': 'Bring it'}"),
        ({"when": {"date": "2026-12-24", "time": "09:00"}}, "when='2026-12-24 09:00'"),
        ({"when": 1798102800}, "when='2026-12-24T09:00:00+00:00'"),
        ({"when": "tomorrow", "labels": "work, crm"}, "labels=['work', 'crm']"),
        ({"when": "tomorrow", "retries": 3}, "retry='3 times'"),
        ({"when": "tomorrow", "max_retries": " 3"}, "retry='3 times'"),
        ({"action": "webhook", "url": "https://example.com/x"}, "payload={'url': 'https://example.com/x'}"),
    ],
)
def test_an_example_keeps_what_was_said(say: Say, arguments: dict[str, Any], example: str) -> None:
    said = say(**arguments)
    assert said.endswith(f"Example: {example}")
    assert "\n" not in said

"""Schemas that survive the adapters of agent frameworks, and calls as a model sends them through each."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.tools.registration import definitions, make_tools
from duetime.tools.schedule_task import actions_of
from pydantic import BaseModel

PROGRAM = Path(__file__).parents[1] / "transformed_schemas.py"
ADAPTERS = (
    "pydantic-ai for OpenAI",
    "pydantic-ai for OpenAI, strict",
    "pydantic-ai for Anthropic",
    "pydantic-ai for Anthropic, strict",
    "pydantic-ai for Gemini",
    "pydantic-ai for Gemini live",
    "openai-agents, strict",
    "langchain",
    "langchain, strict",
)
USUAL: Mapping[str, Any] = {"max_runs": 1, "limit": 20, "priority": "normal", "deadline_type": "soft", "method": "POST"}
"""Values that a model fills in where it has to say something and wants nothing."""

CONTEXT: Any = None  # what the SDK hands to tools; ours ask it nothing
Json = dict[str, Any]
Call = Callable[..., Json]


class Resize(BaseModel):
    """A payload with members of its own, one of which is also named for the built-in actions."""

    path: str
    message: str = "resized"


@handler("resize", payload=Resize)
def resize(_ctx: Context, payload: Resize) -> Done:
    return Done(payload.message)


HANDLERS = Handlers([*Handlers.load(entry_points=False).values(), resize])
TOOLS = [tool for tool in definitions(actions_of(HANDLERS)) if tool.for_models]


@pytest.fixture(scope="module")
def adapted() -> dict[str, dict[str, Json]]:
    """Return the schemas of all tools by adapter, as the frameworks themselves make them."""
    tools = [{"name": tool.name, "description": tool.about, "inputSchema": tool.read().schema()} for tool in TOOLS]
    ended = subprocess.run(
        [sys.executable, str(PROGRAM)], input=json.dumps(tools), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, dict[str, Json]] = json.loads(ended.stdout)
    return found


@pytest.fixture
def call(store: Store) -> Call:
    scheduler = Scheduler(store, Planner(HANDLERS, "UTC", pools=lambda: {"gpu": Pool("gpu", capacity=4)}))
    tools = {tool.name: tool for tool in make_tools(lambda: scheduler)}

    def call(tool: str, arguments: Mapping[str, Any]) -> Json:
        answer = asyncio.run(tools[tool].run(dict(arguments), CONTEXT))
        assert answer.structured_content is not None, answer.content
        return dict(answer.structured_content)

    return call


def filled(schema: Json, wanted: Mapping[str, Any]) -> Json:
    """Return the arguments of a model that wants `wanted` and has to say all that the schema requires."""
    said = {*schema.get("required", ()), *wanted}
    return {name: _value(name, part, wanted.get(name)) for name, part in schema["properties"].items() if name in said}


def _value(name: str, schema: Json, wanted: Any) -> Any:
    if schema.get("type") == "object" and "properties" in schema:
        kept = wanted or {}
        others = {} if schema.get("additionalProperties") is False else kept
        return {**others, **filled(schema, kept)}
    if wanted is not None:
        return wanted
    empty = {"string": "", "integer": 0, "boolean": False, "array": [], "object": {}}
    return USUAL.get(name, schema["enum"][0] if "enum" in schema else empty[schema["type"]])


def test_every_adapter_is_asked(adapted: dict[str, dict[str, Json]]) -> None:
    assert tuple(adapted) == ADAPTERS
    assert all(list(schemas) == [tool.name for tool in TOOLS] for schemas in adapted.values())


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_the_payload_admits_what_the_built_in_actions_take(adapted: dict[str, dict[str, Json]], adapter: str) -> None:
    for tool in ("schedule_task", "reschedule_task"):
        payload = adapted[adapter][tool]["properties"]["payload"]
        assert payload["type"] == "object"
        assert {"message", "url", "method", "body", "headers"} <= payload["properties"].keys()


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_reminder_and_a_webhook_are_scheduled_as_each_adapter_sends_them(
    adapted: dict[str, dict[str, Json]], adapter: str, call: Call
) -> None:
    schema = adapted[adapter]["schedule_task"]
    reminder = {"title": "Call John", "when": "in 2 hours", "payload": {"message": "Bring the contract"}}
    hook = {"url": "https://example.com/hook", "body": '{"a": 1}'}
    webhook = {"title": "Post", "when": "in 2 hours", "action": "webhook", "payload": hook}

    made = call("schedule_task", filled(schema, {"action": "reminder", **reminder}))
    posted = call("schedule_task", filled(schema, webhook))
    plain = call("schedule_task", {**reminder, "idempotency_key": "plain"})

    differ = {"id", "created", "warnings", "undo"}
    assert {key: value for key, value in made.items() if key not in differ} == {
        key: value for key, value in plain.items() if key not in differ
    }
    assert posted["action"] == "webhook"
    assert "repeat" not in made


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_a_change_as_each_adapter_sends_it_changes_nothing_else(
    adapted: dict[str, dict[str, Json]], adapter: str, call: Call, store: Store
) -> None:
    made = call(
        "schedule_task",
        {"title": "Call John", "when": "in 2 hours", "payload": {"message": "Hi"}, "needs": {"gpu": 2}},
    )
    change = {"task_id": made["id"], "title": "Call Jane"}
    changed = call("reschedule_task", filled(adapted[adapter]["reschedule_task"], change))
    task = store.tasks.get("local", made["id"]).task

    assert (changed["title"], changed["needs"], task.payload) == ("Call Jane", {"gpu": 2}, {"message": "Hi"})
    assert changed["when"] == made["when"]


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_tasks_are_read_and_cancelled_as_each_adapter_sends_it(
    adapted: dict[str, dict[str, Json]], adapter: str, call: Call
) -> None:
    schemas = adapted[adapter]
    made = call("schedule_task", {"title": "Call John", "when": "in 2 hours"})
    listed = call("list_tasks", filled(schemas["list_tasks"], {"state": "open"}))
    shown = call("get_task", filled(schemas["get_task"], {"task_id": made["id"]}))
    gone = call("cancel_task", filled(schemas["cancel_task"], {"task_id": made["id"]}))

    assert [row["id"] for row in listed["tasks"]] == [made["id"]]
    assert (shown["title"], gone["state"]) == ("Call John", "cancelled")


def test_nothing_is_removed_but_by_its_name(call: Call, store: Store) -> None:
    made = call(
        "schedule_task",
        {"title": "Call John", "when": "in 2 hours", "payload": {"message": "Hi"}, "needs": {"gpu": 2}},
    )
    call("reschedule_task", {"task_id": made["id"], "title": "Call Jane", "payload": {}, "needs": {}})
    kept = store.tasks.get("local", made["id"]).task
    call("reschedule_task", {"task_id": made["id"], "remove": ["payload", "needs"]})
    removed = store.tasks.get("local", made["id"]).task

    assert (dict(kept.payload), dict(kept.needs)) == ({"message": "Hi"}, {"gpu": 2})
    assert (dict(removed.payload), dict(removed.needs)) == ({"message": None}, {})


def test_a_part_that_is_removed_and_given_is_refused(call: Call) -> None:
    made = call("schedule_task", {"title": "Call John", "when": "in 2 hours"})
    with pytest.raises(AssertionError, match="remove: needs is also given"):
        call("reschedule_task", {"task_id": made["id"], "remove": "needs", "needs": {"gpu": 1}})


def test_the_members_of_a_plug_in_are_its_own_though_a_built_in_action_names_them_too(call: Call, store: Store) -> None:
    blank = {"url": "", "method": "POST", "headers": {}, "body": ""}
    arguments = {"title": "Resize", "when": "in 2 hours", "action": "resize"}
    made = call("schedule_task", {**arguments, "payload": {"path": "a.png", "message": "", **blank}})

    assert dict(store.tasks.get("local", made["id"]).task.payload) == {"path": "a.png", "message": ""}


def test_a_member_of_another_action_that_says_something_is_refused(call: Call) -> None:
    with pytest.raises(AssertionError, match=r"payload\.url"):
        call("schedule_task", {"title": "x", "when": "in 2 hours", "payload": {"url": "https://example.com"}})

"""Answers of the tools: what they cost, and that no call whatsoever brings down the server or leaks what it sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import MAX_REFUSAL_BYTES, Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal, Scope
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.tools.output_schema import output_schema
from duetime.tools.registration import definitions, make_tools
from duetime.tools.schedule_task import REMINDER
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import validate
from mcp.server.mcpserver.tools import Tool
from mcp.types import CallToolResult, TextContent

from tests.flow.requests.costs import tokens
from tests.search import examples

NOW = datetime(2026, 11, 21, 23, 0, tzinfo=UTC)
TOOLS = definitions(REMINDER)
CONTEXT: Any = None  # what the SDK hands to tools; ours ask it nothing


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path: Path = tmp_path_factory.mktemp("answers") / "duetime.db"
    store = open_store(f"sqlite:///{path}", clock=lambda: NOW, synchronous="OFF")
    yield store
    store.close()


@pytest.fixture(scope="module")
def tools(store: Store) -> dict[str, Tool]:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "America/Edmonton"))
    return {tool.name: tool for tool in make_tools(lambda: scheduler)}


Ask = Callable[..., CallToolResult]


@pytest.fixture(scope="module")
def ask(tools: dict[str, Tool]) -> Ask:
    """Call a tool as the SDK does."""

    def ask(tool: str, /, **arguments: Any) -> CallToolResult:
        found = asyncio.run(tools[tool].run(arguments, CONTEXT, convert_result=True))
        assert isinstance(found, CallToolResult)
        return found

    return ask


@pytest.fixture(scope="module")
def existing(ask: Ask) -> str:
    """Make a task and give its id."""
    made = ask("schedule_task", title="Existing", repeat="every day at 9:00").structured_content
    assert made is not None
    return str(made["id"])


def text_of(answer: CallToolResult) -> str:
    part = answer.content[0]
    assert isinstance(part, TextContent)
    return part.text


def test_one_answer_costs_at_most_150_tokens_of_text_and_400_of_structure(ask: Ask) -> None:
    for arguments in (
        {"title": "Call John", "when": "in 2 hours"},
        {"title": "x" * 200, "repeat": "every weekday at 9:00", "labels": ["workflow=onboarding"]},
    ):
        answer = ask("schedule_task", **arguments)

        assert tokens(text_of(answer)) <= 150
        assert tokens(answer.structured_content) <= 400


def test_a_list_of_20_costs_at_most_1000_tokens(ask: Ask) -> None:
    for number in range(20):
        ask("schedule_task", title=f"{number} remember to call somebody about something", when=f"in {number + 1} hours")
    answer = ask("list_tasks")

    assert answer.structured_content is not None
    assert len(answer.structured_content["tasks"]) == 20
    assert tokens(text_of(answer)) <= 1_000
    assert tokens(answer.structured_content) <= 1_000


def test_answers_keep_to_their_schemas(ask: Ask) -> None:
    schemas = {tool.name: output_schema(tool.output) for tool in TOOLS}
    made = ask("schedule_task", title="Call John", repeat="every weekday at 9:00")
    assert made.structured_content is not None
    named = {"task_id": made.structured_content["id"]}
    answers = {
        "schedule_task": made,
        "list_tasks": ask("list_tasks"),
        "get_task": ask("get_task", **named, history=True),
        "reschedule_task": ask("reschedule_task", **named, skip_next=True),
        "act_on_task": ask("act_on_task", **named, action="snooze", minutes=10),
        "cancel_task": ask("cancel_task", **named),
        "change_tasks": ask("change_tasks", change="cancel", label="none"),
        "send_event": ask("send_event", name="order.paid"),
    }

    assert answers.keys() == schemas.keys()
    for name, answer in answers.items():
        assert not answer.is_error, text_of(answer)
        validate(answer.structured_content, schemas[name])


def test_a_refusal_carries_its_code_and_a_sentence_for_the_model_and_one_for_people(ask: Ask) -> None:
    answer = ask("get_task", task_id="t_nothing")

    assert answer.is_error
    assert answer.structured_content is None
    plain = "There is no such task. The list shows your tasks and their ids."
    assert answer.meta == {"duetime/code": "not_found", "duetime/plain": plain}
    assert text_of(answer).startswith("task_id: no task 't_nothing'.")


def test_the_sentence_for_people_names_no_argument_no_tool_and_no_id(ask: Ask) -> None:
    made = ask("schedule_task", title="Call", repeat="every day at 9:00").structured_content
    assert made is not None
    ask("reschedule_task", task_id=made["id"], pause=True)
    answer = ask("act_on_task", task_id=made["id"], action="run_now")

    assert made["id"] in text_of(answer)
    assert (answer.meta or {})["duetime/plain"] == "This task is paused. Resume it."


def test_the_structural_and_the_other_mistakes_are_reported_in_one_answer(ask: Ask) -> None:
    answer = ask("schedule_task", title="x", when="soon", repeat=7, colour="red", labels=["a"] * 11)

    assert [line.partition(":")[0] for line in text_of(answer).splitlines()] == ["repeat", "colour", "when", "labels"]


def test_a_wrong_argument_is_reported_once(ask: Ask) -> None:
    answer = ask("schedule_task", title="x", when="in 2 hours", payload=7, max_runs=3)

    assert [line.partition(":")[0] for line in text_of(answer).splitlines()] == ["payload", "max_runs"]


def test_every_call_is_made_in_the_name_of_the_caller(store: Store) -> None:
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    caller = {"is": Principal(user="ann", scopes=frozenset({Scope.TASKS}))}
    tools = {tool.name: tool for tool in make_tools(lambda: scheduler, caller=lambda: caller["is"])}

    made = asyncio.run(tools["schedule_task"].run({"title": "Mine", "when": "in 2 hours"}, CONTEXT))
    caller["is"] = Principal(tenant="elsewhere", scopes=frozenset({Scope.TASKS}))
    sought = asyncio.run(tools["get_task"].run({"task_id": made.structured_content["id"]}, CONTEXT))

    assert made.structured_content["owner"] == "ann"
    assert sought.is_error


def test_a_caller_without_rights_is_answered_too(store: Store) -> None:
    def nobody() -> Principal:
        raise Refused("no token was given")

    tools = make_tools(lambda: Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), caller=nobody)

    assert text_of(asyncio.run(tools[0].run({}, CONTEXT))) == "no token was given"


# --- hostile arguments ----------------------------------------------------------------------------------------------

TEXT = st.text(alphabet=st.characters() | st.sampled_from("\ud83d\udfff\x00\n\u202e\ufeff \U000e0041"))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.just(10**4_000)
ANYTHING = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4))


def fitting(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values of the kind that the schema asks for, most of them still wrong."""
    kinds: dict[str, st.SearchStrategy[Any]] = {
        "string": TEXT | st.sampled_from(schema.get("enum", ["in 2 hours", "t_1", "daily"])),
        "integer": st.integers(),
        "boolean": st.booleans(),
        "object": st.dictionaries(TEXT, ANYTHING, max_size=4),
        "array": st.lists(TEXT, max_size=12),
    }
    return kinds[schema["type"]]


def hostile_calls() -> st.SearchStrategy[tuple[str, dict[str, Any]]]:
    calls = []
    for tool in TOOLS:
        members = {
            name: st.one_of(fitting(schema), fitting(schema), ANYTHING)
            for name, schema in tool.read().schema()["properties"].items()
        }
        arguments = st.fixed_dictionaries({}, optional={**members, "dead_line": ANYTHING})
        calls.append(st.tuples(st.just(tool.name), arguments))
    return st.one_of(calls)


def one_hostile_argument() -> st.SearchStrategy[tuple[str, str, Any]]:
    calls = [
        st.tuples(st.just(tool.name), st.just(name), fitting(schema))
        for tool in TOOLS
        for name, schema in tool.read().schema()["properties"].items()
    ]
    return st.one_of(calls)


@examples(150)
@given(call=hostile_calls())
def test_any_call_is_answered_by_a_task_or_by_a_sentence(ask: Ask, call: tuple[str, dict[str, Any]]) -> None:
    name, arguments = call
    check(ask(name, **arguments))


@examples(300)
@given(call=one_hostile_argument())
@example(call=("get_task", "task_id", "\ud83d"))
@example(call=("list_tasks", "query", "a\x00b"))
@example(call=("schedule_task", "payload", {"message": float("inf")}))
@example(call=("schedule_task", "labels", ["\udfff"]))
def test_one_hostile_argument_among_good_ones_gets_no_further(
    ask: Ask, existing: str, call: tuple[str, str, Any]
) -> None:
    name, argument, value = call
    good = {"title": "Call John", "when": "in 2 hours"} if name == "schedule_task" else {"task_id": existing}
    good = {} if name == "list_tasks" else good | ({"action": "run_now"} if name == "act_on_task" else {})

    check(ask(name, **{**good, argument: value}))


def check(answer: CallToolResult) -> None:
    answer.model_dump_json().encode()
    assert (answer.meta or {}).get("duetime/code") != "defect"
    if answer.is_error:
        assert 0 < len(text_of(answer).encode()) <= MAX_REFUSAL_BYTES
    else:
        assert answer.structured_content is not None
        json.dumps(answer.structured_content, allow_nan=False).encode()


@examples(50)
@given(secret=st.text(alphabet="xyz", min_size=300, max_size=400))
def test_a_long_value_is_never_echoed(ask: Ask, secret: str) -> None:
    for name, argument in [("schedule_task", "when"), ("schedule_task", "timezone"), ("get_task", "task_id")]:
        assert secret[:200] not in text_of(ask(name, **{argument: secret}))

"""The tools as a client sees them: what they cost a model to read, and what hosts ask of them."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.handlers import Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.intake.terms.payload import BUILT_IN
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.scheduler.task import State
from duetime.scheduler.views import Standing
from duetime.server.protocol.server import INSTRUCTIONS
from duetime.tools.arguments.filters import states_of
from duetime.tools.definition import PAYLOAD_MEMBERS, AnyDefinition
from duetime.tools.output_schema import SCHEMAS, output_schema, schema_files
from duetime.tools.registration import ADMIN_TOOLS, StrictTool, definitions, make_tools
from duetime.tools.schedule_task import REMINDER, actions_of
from duetime.widgets.cards import TASK_LIST, cards
from mcp.types import TextContent
from pydantic import BaseModel, Field

CHARS_PER_TOKEN = 4
MAX_CHARS = 3_200 * CHARS_PER_TOKEN
HANDLERS = Handlers.load(entry_points=False)
TOOLS = definitions(actions_of(HANDLERS))


def characters(tools: Iterable[AnyDefinition]) -> int:
    """Return how much of these tools a model reads."""
    read = [{"name": tool.name, "description": tool.about, "inputSchema": tool.read().schema()} for tool in tools]
    return len(json.dumps(read, separators=(",", ":")))


def test_the_definitions_cost_a_model_at_most_3200_tokens() -> None:
    assert characters(TOOLS) <= MAX_CHARS


def test_pools_and_a_plug_in_fit_in_as_well() -> None:
    named = {**actions_of(HANDLERS), "resize": {"path": {"type": "string"}, "width": {}, "height": {}}}
    assert characters(definitions(named, ("gpu", "openai"))) <= MAX_CHARS
    assert characters(TOOLS) <= MAX_CHARS - 200


def test_the_order_of_the_tools_never_changes() -> None:
    names = [
        "schedule_task",
        "list_tasks",
        "get_task",
        "reschedule_task",
        "cancel_task",
        "change_tasks",
        "send_event",
        "act_on_task",
    ]

    assert [tool.name for tool in TOOLS] == names
    assert [tool.name for tool in definitions({"resize": {}})] == names


def test_models_are_told_what_each_action_takes() -> None:
    payload = TOOLS[0].read().table["payload"].about

    assert payload == (
        "Input of the action. reminder: {message}; webhook: {url, method, body, headers}; "
        "watch: {url, condition, changed, every, until, message, headers, method, body, check, arguments}"
    )


def test_the_members_that_models_may_fill_in_are_those_of_the_built_in_actions() -> None:
    members = {name: field for model in BUILT_IN for name, field in model.model_fields.items()}

    for tool in (TOOLS[0], TOOLS[3]):
        payload = tool.read().schema()["properties"]["payload"]
        assert set(payload["properties"]) == set(members)
        assert tuple(payload["properties"]["method"]["enum"]) == get_args(members["method"].annotation)
        assert payload["additionalProperties"] is True


def test_a_member_that_an_action_of_a_handler_has_too_is_not_described_as_that_of_a_built_in_action() -> None:
    cut = {"method": {"type": "string"}, "url": {"type": "string", "title": "Url"}, "size": {"type": "integer"}}
    schedule = definitions({**REMINDER, "webhook": PAYLOAD_MEMBERS, "cut": cut})[0]
    members = schedule.read().schema()["properties"]["payload"]["properties"]

    assert "method" not in members, "it is any text there"
    assert members["url"] == {"type": "string"}


def test_models_are_told_the_names_that_a_call_has_to_use() -> None:
    class Cut(BaseModel):
        big_file: str = Field(alias="bigFile")

    cut = handler("cut", payload=Cut)(lambda _ctx, _payload: Done())
    schedule = definitions(actions_of({"cut": cut}))[0]

    assert schedule.read().table["payload"].about == "Input of the action. cut: {bigFile}"


def test_models_are_told_that_a_reminder_does_no_work_and_whose_zone_a_change_is_read_in() -> None:
    action = TOOLS[0].read().table["action"].about
    said = "Action to run: reminder, webhook, watch. Default reminder: only notifies the user, does no work"
    assert action == said
    assert TOOLS[3].read().table["timezone"].about == "IANA name; default: the task's own zone"


def test_a_hundred_plug_ins_do_not_break_the_budget() -> None:
    many: dict[str, dict[str, dict[str, str]]] = {
        f"plug_in_{number}": {f"member_{member}": {} for member in range(50)} for number in range(100)
    }
    schedule = definitions(many)[0]

    about = schedule.read().table["action"].about
    assert "plug_in_11 and 88 more." in about
    assert len(json.dumps(schedule.read().schema())) / CHARS_PER_TOKEN <= 1_660


def test_the_instructions_are_short() -> None:
    assert len(INSTRUCTIONS.split()) <= 120


def test_no_more_is_promised_than_is_kept() -> None:
    assert "while a Duetime process is up" in INSTRUCTIONS
    assert "repeat the same call within a minute" in INSTRUCTIONS
    assert "within a minute" in TOOLS[0].about


def test_a_list_can_be_asked_for_all_that_is_open_or_ended_and_for_each_state_that_occurs() -> None:
    states = TOOLS[1].read().schema()["properties"]["state"]["enum"]

    assert states == ["open", "ended", *State, *Standing]


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        *(("unmet", "unverified"), ("held", "ready"), ("parked", "ready"), ("on hold", "paused")),
        *(("Pending", "open"), ("done", "succeeded")),
    ],
)
def test_a_synonym_of_a_state_is_refused_with_the_state_that_is_meant(asked: str, shown: str) -> None:
    (wrong,) = TOOLS[1].read().read({"state": asked})[1]
    assert str(wrong).endswith(f"Example: state={shown!r}")
    with pytest.raises(InvalidArgument, match=f"Example: state='{shown}'"):
        states_of(asked)


def test_models_are_told_the_pools_and_keys_that_they_may_name_and_no_quota() -> None:
    about = definitions(REMINDER, ("gpu", "tenant:acme"))[0].read().schema()["properties"]["needs"]
    assert about["description"].endswith(": gpu, key:<anything> (one at a time)")


@pytest.mark.parametrize(
    ("argument", "example", "passed"),
    [
        ("when", "in 1 hour", "when='in 1 hour'"),
        ("until", "2026-12-31", "until='2026-12-31'"),
        ("retry", "{'max_attempts': 5}", "retry={'max_attempts': 5}"),
        ("fraction", "0.5", "fraction=0.5"),
        ("deadline_type", "deadline='2 hours', deadline_type='hard'", "deadline='2 hours', deadline_type='hard'"),
        ("payload.path", "a.png", "a.png"),
    ],
)
def test_an_example_shows_the_argument_as_it_is_passed(argument: str, example: str, passed: str) -> None:
    assert str(InvalidArgument(argument, "no", example=example)) == f"{argument}: no. Example: {passed}"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_has_a_title_a_short_description_and_four_explicit_hints(tool: AnyDefinition) -> None:
    assert tool.title
    assert 0 < len(tool.about) <= 200
    assert None not in tool.hints.model_dump().values() or tool.hints.title is None
    hints = tool.hints
    explicit = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
    assert all(isinstance(hint, bool) for hint in explicit)


def test_only_the_tool_for_buttons_is_kept_from_models() -> None:
    assert [tool.name for tool in TOOLS if not tool.for_models] == ["act_on_task"]


def test_every_tool_but_that_for_events_has_a_card_that_is_served() -> None:
    assert {tool.card for tool in TOOLS if tool.name != "send_event"} == {card.uri for card in cards()}


def parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
        for name, inner in schema.items():
            members = inner.values() if name in {"properties", "$defs"} else [inner]
            for member in members:
                yield from parts(member)
    elif isinstance(schema, list):
        for item in schema:
            yield from parts(item)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_schemas_hold_nothing_that_clients_stumble_over(tool: AnyDefinition) -> None:
    for schema in (tool.read().schema(), output_schema(tool.output)):
        assert schema["type"] == "object"
        for part in parts(schema):
            assert "title" not in part
            assert part.get("type") != "null"
            assert "anyOf" not in part
            assert part.get("default", 0) is not None


def test_the_committed_output_schemas_are_those_of_the_payloads() -> None:
    committed = {path.name: path.read_text(encoding="utf-8") for path in SCHEMAS.iterdir()}
    assert committed == schema_files(), "run `python -m duetime.tools.output_schema` and commit what it writes"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_input_schemas_are_closed_and_answers_may_grow(tool: AnyDefinition) -> None:
    assert tool.read().schema()["additionalProperties"] is False
    assert "additionalProperties" not in output_schema(tool.output)


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_example_of_an_argument_is_one_that_it_accepts(tool: AnyDefinition) -> None:
    for argument in tool.arguments:
        name, separator, value = argument.example.partition("=")
        if separator:
            literal = {"true": True, "false": False}.get(value)
            argument.kind.read(literal if literal is not None else eval(value))
            assert name == argument.name


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_call_of_every_tool_is_a_frozen_dataclass_with_a_field_for_each_argument(tool: AnyDefinition) -> None:
    call = tool.call(**{argument.name: {} if argument.name == "retry" else "x" for argument in tool.arguments})

    assert dataclasses.is_dataclass(call)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(call, tool.arguments[0].name, "y")
    assert {argument.name for argument in tool.arguments} <= {item.name for item in dataclasses.fields(call)}


def test_a_tool_whose_card_is_no_resource_is_refused_at_the_start(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'duetime.db'}")
    scheduler = Scheduler(store, Planner(HANDLERS, "UTC"))
    listed = [card for card in cards() if card.uri == TASK_LIST]

    with pytest.raises(ValueError, match="no resource has the cards of schedule_task, get_task"):
        make_tools(lambda: scheduler, served=listed)
    store.close()


@pytest.mark.parametrize("tool", [*TOOLS, *ADMIN_TOOLS], ids=lambda tool: tool.name)
def test_a_caller_without_the_scope_of_a_tool_is_refused(tool: AnyDefinition, scheduler: Scheduler) -> None:
    stranger = dataclasses.replace(LOCAL, scopes=frozenset({"worker"}))
    answer = asyncio.run(StrictTool.of(tool, lambda: scheduler, lambda: stranger).run({}, None))
    assert [part.text for part in answer.content if isinstance(part, TextContent)] == [
        f"{tool.name} needs a token with the scope {tool.scope}."
    ]

"""Payloads as A2UI messages: valid by the schemas of A2UI 0.9, which lie beside (Apache-2.0, a2ui.org)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import WaitKind, WaitReason
from duetime.scheduler.views import TaskView
from duetime.tools.registration import make_tools
from duetime.widgets.formats.a2ui import list_messages, task_messages
from duetime.widgets.payload import as_dry_run, list_payload, task_payload
from duetime.widgets.schema.task import DRY_RUN_ID
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.builders import Clock

HERE = Path(__file__).parent / "a2ui"
BASE = "https://a2ui.org/specification/v0_9"
ADDRESSES = {
    f"{BASE}/server_to_client.json": "server_to_client.json",
    f"{BASE}/common_types.json": "common_types.json",
    f"{BASE}/catalog.json": "catalog.json",  # as the messages refer to it
    f"{BASE}/catalogs/basic/catalog.json": "catalog.json",
}
HOSTILE = "{path: /title} **[x](javascript:1)** <b>"


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    schemas = {name: json.loads((HERE / file).read_text("utf-8")) for name, file in ADDRESSES.items()}
    registry: Registry[Any] = Registry().with_resources(
        (name, Resource.from_contents(schema)) for name, schema in schemas.items()
    )
    return Draft202012Validator(schemas[f"{BASE}/server_to_client.json"], registry=registry)


@pytest.fixture
def scheduler() -> Scheduler:
    store = open_store("sqlite://", clock=Clock(datetime(2026, 11, 23, 15, tzinfo=UTC)))
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "America/Edmonton"))


def views(scheduler: Scheduler) -> Iterator[TaskView]:
    full = scheduler.schedule(
        HOSTILE,
        when="tomorrow 9am",
        repeat="every weekday at 9:00",
        payload={"message": HOSTILE},
        deadline="2 hours",
        labels=("work",),
    )
    yield replace(full, waits=(WaitReason(WaitKind.POOL, "pool gpu", pool="gpu"),))
    for state in State:
        yield replace(full, record=replace(full.record, run=replace(full.record.run, state=state)))
    yield as_dry_run(scheduler.schedule("Try", when="tomorrow", dry_run=True))


def wrong(validator: Draft202012Validator, messages: Any) -> list[str]:
    return [error.message for message in messages for error in validator.iter_errors(message)]


def test_each_task_is_drawn_by_valid_messages(scheduler: Scheduler, validator: Draft202012Validator) -> None:
    for view in views(scheduler):
        messages = task_messages(task_payload(view))
        assert wrong(validator, messages) == []
        assert [next(key for key in message if key != "version") for message in messages] == [
            "createSurface", "updateComponents", "updateDataModel",
        ]  # fmt: skip


def test_a_wrong_message_is_noticed(scheduler: Scheduler, validator: Draft202012Validator) -> None:
    messages = task_messages(task_payload(scheduler.schedule("Call John", when="tomorrow 9am")))
    messages[1]["updateComponents"]["components"][0]["component"] = "Cart"
    assert wrong(validator, messages) != []


def components(messages: Any) -> dict[str, Any]:
    return {each["id"]: each for each in messages[1]["updateComponents"]["components"]}


def test_components_refer_to_each_other_and_to_the_data(scheduler: Scheduler) -> None:
    for view in views(scheduler):
        messages = task_messages(task_payload(view))
        found, model = components(messages), messages[2]["updateDataModel"]["value"]
        named = {name for each in found.values() for name in [*each.get("children", []), each.get("child")] if name}
        assert named == set(found) - {"root"}
        bound = {each["text"]["path"][1:] for each in found.values() if isinstance(each.get("text"), dict)}
        assert bound == set(model)


def test_what_users_wrote_stands_in_the_data_alone(scheduler: Scheduler) -> None:
    create, update, data = task_messages(task_payload(next(views(scheduler))))
    assert HOSTILE not in json.dumps([create, update])
    assert data["updateDataModel"]["value"]["title"] == HOSTILE


def test_a_button_is_a_call_of_a_tool_with_its_arguments(scheduler: Scheduler) -> None:
    tools = {tool.name: tool for tool in make_tools(lambda: scheduler)}
    view = scheduler.schedule("Call John", when="tomorrow 9am")
    events = [
        each["action"]["event"]
        for each in components(task_messages(task_payload(view))).values()
        if each["component"] == "Button"
    ]
    assert [(event["name"], event["context"].get("action")) for event in events] == [
        ("act_on_task", "snooze"), ("act_on_task", "run_now"), ("cancel_task", None),
    ]  # fmt: skip
    for event in events:
        assert set(event["context"]) <= set(tools[event["name"]].parameters["properties"])


def test_an_ended_task_and_a_dry_run_offer_no_cancel(scheduler: Scheduler) -> None:
    for view in views(scheduler):
        payload = task_payload(view)
        assert ("cancel" in components(task_messages(payload))) == (payload.state in OPEN and payload.id != DRY_RUN_ID)


def test_a_list_has_a_row_for_each_task(scheduler: Scheduler, validator: Draft202012Validator) -> None:
    assert wrong(validator, list_messages(list_payload(scheduler.list()))) == []
    for title in ("one", "two"):
        scheduler.schedule(title, when="tomorrow 9am")
    messages = list_messages(list_payload(scheduler.list()))
    assert wrong(validator, messages) == []
    model = messages[2]["updateDataModel"]["value"]
    assert (model["heading"], {row["title"] for row in model["rows"]}) == ("2 tasks", {"one", "two"})

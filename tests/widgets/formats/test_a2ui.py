"""Payloads as A2UI messages: valid by the schemas of A2UI 0.9, which lie next to it (Apache-2.0, a2ui.org)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.ids import DRY_RUN_ID
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import open_store
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import WaitKind, WaitReason
from duetime.scheduler.views import TaskView
from duetime.tools.registration import make_tools
from duetime.widgets.formats.a2ui import list_messages, task_messages
from duetime.widgets.payload import as_dry_run, list_payload, task_payload
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from tests.builders import Clock

HERE = Path(__file__).parents[1] / "a2ui"
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


def views(scheduler: Scheduler) -> list[TaskView]:
    """Return tasks in every state, a dry run, one that is blocked, one that asks, and a chain."""
    found = list(_views(scheduler))
    assert {view.record.run.state for view in found} == set(State)
    return found


def _views(scheduler: Scheduler) -> Iterator[TaskView]:
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
    missing = replace(full.record.run, summary="blocked: no key")
    yield replace(full, record=replace(full.record, run=missing), waits=(BLOCKED,))
    yield scheduler.get(scheduler.schedule("Pay", when="tomorrow 9am", approval={"question": "Pay?"}).record.task.id)
    yield chain_of(scheduler)


BLOCKED = WaitReason(WaitKind.BLOCKED, "blocked: no key", after="no key")


def chain_of(scheduler: Scheduler) -> TaskView:
    """Return a chain that asks first."""
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "send", "after": ["fetch"]}]
    made = scheduler.schedule("Report", when="tomorrow 9am", steps=steps, approval={"question": "Send it?"})
    return scheduler.get(made.record.task.id)


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


def children(component: Any) -> list[str]:
    """Return the ids of what a component holds."""
    held = component.get("children", [])
    return [held["componentId"]] if isinstance(held, dict) else [*held, *filter(None, [component.get("child")])]


def test_components_refer_to_each_other_and_to_the_data(scheduler: Scheduler) -> None:
    for view in views(scheduler):
        messages = task_messages(task_payload(view))
        found, model = components(messages), messages[2]["updateDataModel"]["value"]
        named = {name for each in found.values() for name in children(each)}
        assert named == set(found) - {"root"}
        bound = {each["text"]["path"] for each in found.values() if isinstance(each.get("text"), dict)}
        lists = {each["children"]["path"] for each in found.values() if isinstance(each.get("children"), dict)}
        assert {path[1:] for path in bound | lists if path.startswith("/")} == set(model)
        in_rows = {path for path in bound if not path.startswith("/")}
        assert in_rows == {name for row in model.get("steps", []) for name in row}


def test_user_text_stands_in_the_data_alone(scheduler: Scheduler) -> None:
    create, update, data = task_messages(task_payload(views(scheduler)[0]))
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


def test_a_chain_shows_its_question_progress_and_steps_and_is_approved_or_rejected(scheduler: Scheduler) -> None:
    view = chain_of(scheduler)
    messages = task_messages(task_payload(view))
    model, found = messages[2]["updateDataModel"]["value"], components(messages)
    assert (model["question"], model["progress"]) == ("Send it?", "0 of 2 steps done")
    assert model["steps"] == [{"name": "fetch", "status": "Waiting"}, {"name": "send", "status": "Waiting"}]
    contexts = {name: each["action"]["event"]["context"] for name, each in found.items() if "action" in each}
    assert contexts.keys() == {"approve", "reject", "cancel"}
    assert contexts["approve"] == {"task_id": view.record.task.id, "revision": 1, "action": "approve"}
    assert view.chain is not None
    failed = replace(view.chain.steps[0], state=State.FAILED, why="404")
    lost = replace(view, chain=replace(view.chain, steps=(failed, view.chain.steps[1])))
    assert task_messages(task_payload(lost))[2]["updateDataModel"]["value"]["steps"][0]["status"] == "Failed: 404"


def test_a_blocked_task_says_what_it_misses_and_steps_that_ask_differently_are_answered_one_by_one(
    scheduler: Scheduler,
) -> None:
    blocked = next(view for view in views(scheduler) if BLOCKED in view.waits)
    model = task_messages(task_payload(blocked))[2]["updateDataModel"]["value"]
    assert model["missing"] == "Blocked: no key"
    assert model["status"].startswith("The reminder is blocked")
    asks = (WaitReason(WaitKind.APPROVAL, "approval", title="One?"), WaitReason(WaitKind.APPROVAL, "a", title="Two?"))
    messages = task_messages(task_payload(replace(chain_of(scheduler), waits=asks)))
    assert messages[2]["updateDataModel"]["value"]["question"] == "One?\nTwo?"
    assert not {"approve", "reject", "snooze", "run-now"} & components(messages).keys()


def test_an_ended_task_and_a_dry_run_offer_no_cancel(scheduler: Scheduler) -> None:
    for view in views(scheduler):
        payload = task_payload(view)
        assert ("cancel" in components(task_messages(payload))) == (payload.state in OPEN and payload.id != DRY_RUN_ID)


def test_a_run_next_to_its_series_has_the_buttons_of_its_own_state_and_deadline(scheduler: Scheduler) -> None:
    made = scheduler.schedule("Report", repeat="every day at 9:00", deadline="2 hours").record.task.id
    payload = task_payload(scheduler.act(made, "run_now"))
    lines = task_messages(payload)[2]["updateDataModel"]["value"]
    assert lines["status"].startswith("An extra run of the reminder is due now.")
    assert payload.extra_run
    assert payload.extra_run.deadline
    assert lines["deadline"] == f"Deadline {payload.extra_run.deadline.text}"
    drawn = components(task_messages(payload))
    assert drawn["cancel-label"]["text"] == "Cancel all its runs"
    runs = payload.model_copy(update={"extra_run": payload.extra_run.model_copy(update={"state": State.RUNNING})})
    assert {"snooze", "run-now"} & drawn.keys() - components(task_messages(runs)).keys() == {"snooze", "run-now"}


def test_a_list_has_a_row_for_each_task(scheduler: Scheduler, validator: Draft202012Validator) -> None:
    assert wrong(validator, list_messages(list_payload(scheduler.tasks.list()))) == []
    for title in ("one", "two"):
        scheduler.schedule(title, when="tomorrow 9am")
    messages = list_messages(list_payload(scheduler.tasks.list()))
    assert wrong(validator, messages) == []
    model = messages[2]["updateDataModel"]["value"]
    assert (model["heading"], {row["title"] for row in model["rows"]}) == ("2 tasks", {"one", "two"})

"""Payloads and results that an answer cuts: it says so, and the history and the resource of a task have them whole."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Json
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from mcp import Client

from tests.builders import Clock
from tests.flow.tools.calls import Ask, asked_of, settled

ROWS: Json = {"rows": [{"id": number, "name": f"customer {number}", "city": "Berlin"} for number in range(40)]}
BODY = "order 7, then " * 40


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    handlers = Handlers.load(entry_points=False)
    return Scheduler(store, Planner(handlers, "UTC", channels=Channels(), upstreams=store.dependencies.known))


@pytest.fixture
def ask(scheduler: Scheduler) -> Ask:
    return asked_of(scheduler)


def ended(ask: Ask, store: Store, clock: Clock, result: Json, **payload: Any) -> str:
    given = {"url": "https://example.com/orders", **payload}
    made = ask("schedule_task", title="Push", action="webhook", when="now", payload=given)[1]
    settled(store, clock(), Done("pushed", result=result))
    return str(made["id"])


def resource(scheduler: Scheduler, store: Store, address: str) -> Mapping[str, Any]:
    async def read() -> str:
        async with Client(make_server(lambda: scheduler, Subscriptions(lambda: store.history))) as client:
            [found] = (await client.read_resource(address)).contents
        return str(getattr(found, "text", ""))

    return dict(json.loads(asyncio.run(read())))


def test_an_answer_names_what_it_has_cut_and_the_argument_that_shows_it(ask: Ask, store: Store, clock: Clock) -> None:
    task_id = ended(ask, store, clock, ROWS, body=BODY)
    text, shown = ask("get_task", task_id=task_id)
    assert shown["cut"] == ["payload", "result"]
    assert len(shown["result"]) == 240
    assert "Cut: payload, result; history=true shows all." in text


def test_a_text_says_that_it_has_less_than_the_structure(ask: Ask, store: Store, clock: Clock) -> None:
    task_id = ended(ask, store, clock, "x" * 150)
    text, shown = ask("get_task", task_id=task_id)
    assert ("cut" in shown, shown["result"]) == (False, "x" * 150)
    assert "result; history=true shows all." in text


def test_an_answer_without_long_parts_has_cut_nothing(ask: Ask, store: Store, clock: Clock) -> None:
    text, shown = ask("get_task", task_id=ended(ask, store, clock, {"orders": 7}))
    assert "cut" not in shown
    assert "Cut:" not in text


def test_the_history_of_a_reminder_has_its_message_whole(ask: Ask) -> None:
    message = "bring the coffee and then " * 15
    made = ask("schedule_task", title="Stand-up", when="tomorrow", payload={"message": message})[1]
    short, whole = ask("get_task", task_id=made["id"])[0], ask("get_task", task_id=made["id"], history=True)[0]
    assert "Cut: message; history=true shows all." in short
    assert " ".join(message.split()) in " ".join(whole.split())


@pytest.mark.parametrize("unread", [False, True])
def test_the_history_of_a_task_has_its_payload_and_result_whole(
    ask: Ask, store: Store, clock: Clock, *, unread: bool
) -> None:
    task_id = ended(ask, store, clock, ROWS, body=BODY)
    text, shown = ask("get_task", task_id=task_id, history=True, keep_unread=unread)
    assert (shown["result"], shown["payload"]["body"]) == (ROWS, BODY)
    assert "cut" not in shown
    assert f"Result:\n  | {json.dumps(ROWS)}" in text
    assert "Cut:" not in text


def test_a_whole_result_of_several_lines_is_quoted_line_by_line(ask: Ask, store: Store, clock: Clock) -> None:
    text, _ = ask("get_task", task_id=ended(ask, store, clock, "first\nsecond"), history=True)
    assert "Result:\n  | first\n  | second" in text


def test_a_long_message_is_whole_with_the_history(ask: Ask) -> None:
    words = "Call John about the contract. " * 8
    made = ask("schedule_task", title="Call", when="in 2 hours", payload={"message": words.strip()})[1]
    assert ask("get_task", task_id=made["id"])[1]["cut"] == ["message"]
    assert ask("get_task", task_id=made["id"], history=True)[1]["message"] == words.strip()


def test_the_resource_of_a_task_has_its_payload_and_result_whole(
    ask: Ask, scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = ended(ask, store, clock, ROWS, body=BODY)
    shown = resource(scheduler, store, f"duetime://tasks/{task_id}")
    assert (shown["result"], shown["payload"]["body"]) == (ROWS, BODY)
    assert "speech" in shown


def test_the_resource_of_the_inbox_counts_what_it_leaves_out(
    ask: Ask, scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    ended(ask, store, clock, {})
    ask("schedule_task", title="Quiet", action="webhook", when="now", notify="never", payload={"url": "https://a.io"})
    settled(store, clock(), Done("pushed"))
    shown = resource(scheduler, store, "duetime://inbox")
    assert (len(shown["messages"]), shown["unread_count"], shown["quiet_count"]) == (1, 1, 1)

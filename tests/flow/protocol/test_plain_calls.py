"""Plain calls of tools go past the SDK's models: their answers are those that the SDK would write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.server.protocol import methods
from mcp.client.client import Client
from mcp.server import MCPServer
from mcp.types import INVALID_PARAMS, CallToolResult, RequestParamsMeta

from tests.flow.protocol.test_stdio import ERAS, MODERN, Peer, serving
from tests.flow.protocol.test_tasks_extension import found, talk

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "task": ("get_task", {"task_id": "TASK"}),
    "history": ("get_task", {"task_id": "TASK", "history": True}),
    "list": ("list_tasks", {}),
    "dry run": ("schedule_task", {"title": "Call John", "repeat": "every weekday at 9:00", "dry_run": True}),
    "unknown task": ("get_task", {"task_id": "t_000000000000"}),
    "unknown argument": ("list_tasks", {"colour": "red"}),
    "button": ("act_on_task", {"task_id": "TASK", "action": "approve"}),
    "unknown tool": ("make_coffee", {}),
}


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with serving(tmp_path_factory.mktemp("plain"), ERAS[1]) as started:
        yield started


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))


def answered(scheduler: Scheduler, store: Store, tool: str, arguments: dict[str, Any], era: str) -> dict[str, Any]:
    async def call(client: Client) -> CallToolResult:
        return await client.call_tool(tool, arguments, meta=RequestParamsMeta(progress_token="1"))

    return found(talk(scheduler, store, call, era=era))


@pytest.mark.parametrize("case", CALLS)
def test_a_plain_call_is_answered_as_the_sdk_answers_it(
    scheduler: Scheduler, store: Store, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    task_id = scheduler.schedule("Call John", when="tomorrow at 9am", timezone="Europe/Paris").record.task.id
    tool, named = CALLS[case]
    arguments = {name: task_id if value == "TASK" else value for name, value in named.items()}
    plain = answered(scheduler, store, tool, arguments, ERAS[1])
    monkeypatch.setattr(methods, "_is_plain", lambda _ctx, _params: False)

    assert plain == answered(scheduler, store, tool, arguments, ERAS[1])


@pytest.mark.parametrize("case", ["unknown task", "unknown argument"])
def test_on_the_wire_a_plain_call_is_answered_as_one_that_the_sdk_reads(peer: Peer, case: str) -> None:
    tool, arguments = CALLS[case]
    plain = peer.ask("tools/call", name=tool, arguments=arguments)

    assert plain["result"]["isError"] is True
    assert plain == peer.ask("tools/call", name=tool, arguments=arguments, requestState=None)


def test_on_the_wire_a_task_has_all_that_the_sdk_adds(peer: Peer) -> None:
    asked = {"title": "Call John", "when": "in 2 hours", "dry_run": True}
    plain = peer.call("schedule_task", **asked)
    read = peer.ask("tools/call", name="schedule_task", arguments=asked, requestState=None)["result"]

    assert plain.keys() == read.keys()
    assert plain["structuredContent"].keys() == read["structuredContent"].keys()
    assert {name: plain[name] for name in ("isError", "resultType", "_meta")} == {
        name: read[name] for name in ("isError", "resultType", "_meta")
    }


def test_only_a_plain_call_of_the_present_protocol_goes_past_the_sdk(
    scheduler: Scheduler, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the SDK was asked")

    monkeypatch.setattr(MCPServer, "call_tool", refuse)

    assert answered(scheduler, store, "list_tasks", {}, ERAS[1])["isError"] is False
    assert answered(scheduler, store, "list_tasks", {}, "legacy")["isError"] is True


WRONG: dict[str, dict[str, Any]] = {
    "arguments in a list": {"arguments": ["x"]},
    "unreadable metadata": {"arguments": {}, "_meta": {**MODERN, "progressToken": {}}},
    "unreadable answers": {"arguments": {}, "inputResponses": ["x"]},
}


@pytest.mark.parametrize("case", WRONG)
def test_a_call_that_the_protocol_forbids_is_refused_by_the_sdk(peer: Peer, case: str) -> None:
    assert peer.ask("tools/call", name="list_tasks", **WRONG[case])["error"]["code"] == INVALID_PARAMS

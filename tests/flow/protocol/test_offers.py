"""Offers next to the tools: buttons where a client draws no cards, prompts, completions, open tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.protocol.test_stdio import ERAS, MODERN, Peer, serving

UI = {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}


@pytest.fixture(scope="module", params=ERAS)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with serving(tmp_path_factory.mktemp("offers"), request.param) as found:
        yield found


def visibility(listed: dict[str, Any]) -> dict[str, list[str]]:
    return {
        tool["name"]: tool["_meta"]["ui"]["visibility"] for tool in listed["result"]["tools"] if "ui" in tool["_meta"]
    }


def test_the_buttons_are_a_tool_for_models_where_no_card_has_them(peer: Peer) -> None:
    assert visibility(peer.ask("tools/list"))["act_on_task"] == ["model", "app"]


def test_the_buttons_are_kept_from_models_where_the_client_draws_cards(tmp_path: Path) -> None:
    capable = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {"extensions": UI}}
    with serving(tmp_path, ERAS[1]) as peer:
        assert visibility(peer.ask("tools/list", _meta=capable))["act_on_task"] == ["app"]
        assert visibility(peer.ask("tools/list"))["act_on_task"] == ["model", "app"]


def test_a_model_undoes_a_cancel_without_a_card(peer: Peer) -> None:
    made = peer.call("schedule_task", title="Call John", when="in 2 hours")["structuredContent"]
    gone = peer.call("cancel_task", task_id=made["id"])["structuredContent"]
    back = peer.call("act_on_task", task_id=made["id"], action="undo", undo=gone["undo"])["structuredContent"]

    assert back["state"] == "scheduled"


def test_prompts_are_real(peer: Peer) -> None:
    listed = peer.ask("prompts/list")["result"]["prompts"]

    assert [prompt["name"] for prompt in listed] == ["plan_my_day", "what_did_i_miss", "reschedule_all"]
    for prompt in listed:
        (message,) = peer.ask("prompts/get", name=prompt["name"])["result"]["messages"]
        assert message["role"] == "user"
        assert "list_tasks" in message["content"]["text"]


LONG = "x" * 5000
WRONG: dict[str, tuple[str, dict[str, Any]]] = {
    "unknown tool": ("tools/call", {"name": LONG, "arguments": {}}),
    "unknown argument": ("tools/call", {"name": "get_task", "arguments": {LONG: LONG}}),
    "arguments of another type": ("tools/call", {"name": "get_task", "arguments": [LONG]}),
    "unknown resource": ("resources/read", {"uri": f"duetime://{LONG}"}),
    "unknown task": ("resources/read", {"uri": f"duetime://tasks/{LONG}"}),
    "no address": ("resources/read", {"uri": LONG}),
    "unknown method": (LONG, {}),
    "unknown prompt": ("prompts/get", {"name": LONG}),
    "prompt that is a list": ("prompts/get", {"name": [LONG]}),
    "unknown argument of a prompt": ("prompts/get", {"name": "plan_my_day", "arguments": {LONG: LONG}}),
    "argument of a prompt of another type": ("prompts/get", {"name": "plan_my_day", "arguments": {"x": [LONG]}}),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_refusal_of_the_protocol_is_short_and_says_what_is_wrong(peer: Peer, case: str) -> None:
    method, params = WRONG[case]
    answer = peer.ask(method, **params)
    refused = answer.get("error") or answer["result"]["content"][0]

    assert len(json.dumps(refused)) < 1100
    assert len(refused.get("message", refused.get("text")).encode()) <= 1024
    assert "pydantic" not in json.dumps(answer)
    assert refused.get("code", -32602) in {-32601, -32602}  # what a caller did wrong is no defect of the server


def test_an_unknown_prompt_is_an_error_of_the_protocol(peer: Peer) -> None:
    error = peer.ask("prompts/get", name="nope")["error"]

    assert error["code"] == -32602
    assert "plan_my_day" in error["message"]


def test_task_ids_are_completed_by_their_start_or_by_the_title(peer: Peer) -> None:
    made = peer.call("schedule_task", title="Water the orchids", when="in 2 hours")["structuredContent"]["id"]
    ref = {"type": "ref/resource", "uri": "duetime://tasks/{task_id}"}

    for typed in (made[:6], "ORCHIDS"):
        found = peer.ask("completion/complete", ref=ref, argument={"name": "task_id", "value": typed})
        assert found["result"]["completion"]["values"] == [made]
    other = peer.ask("completion/complete", ref=ref, argument={"name": "other", "value": ""})
    assert other["result"]["completion"]["values"] == []


def test_open_tasks_are_listed_as_resources_until_they_end(peer: Peer) -> None:
    made = peer.call("schedule_task", title="Feed the cat", when="in 2 hours")["structuredContent"]["id"]
    uri = f"duetime://tasks/{made}"
    listed = {row["uri"]: row for row in peer.ask("resources/list")["result"]["resources"]}

    assert listed[uri]["title"] == "Feed the cat"
    assert {"duetime://inbox", "ui://duetime/task-card.html"} <= listed.keys()
    peer.call("cancel_task", task_id=made)
    assert uri not in {row["uri"] for row in peer.ask("resources/list")["result"]["resources"]}


def test_the_schema_of_a_task_is_listed_once(peer: Peer) -> None:
    tools = {tool["name"]: tool for tool in peer.ask("tools/list")["result"]["tools"]}

    assert [name for name, tool in tools.items() if "outputSchema" in tool] == ["list_tasks", "get_task"]
    assert tools["get_task"]["outputSchema"]["properties"]["id"] == {"type": "string"}


@pytest.mark.parametrize("action", ["approve", "Reject "])
def test_a_model_does_not_approve_its_own_work(peer: Peer, action: str) -> None:
    [buttons] = [tool for tool in peer.ask("tools/list")["result"]["tools"] if tool["name"] == "act_on_task"]
    assert not {"approve", "reject"} & set(buttons["inputSchema"]["properties"]["action"]["enum"])
    made = peer.call("schedule_task", title="Pay", approval=True)["structuredContent"]
    refused = peer.call("act_on_task", task_id=made["id"], action=action)
    assert refused["isError"]
    said = refused["content"][0]["text"]
    assert "Only the user approves or rejects a task" in said
    assert "This host shows no cards" in said
    assert f"ask the user to run `duetime approve {made['id']}` or `duetime reject {made['id']}`" in said
    refused = peer.call("act_on_task", task_id="t_1; rm", action=action)
    assert "`duetime approve ID`" in refused["content"][0]["text"], "what a user copies is a command of ours"
    assert peer.call("get_task", task_id=made["id"])["structuredContent"]["state"] == "waiting"


def test_a_card_approves(tmp_path: Path) -> None:
    capable = {**MODERN, "io.modelcontextprotocol/clientCapabilities": {"extensions": UI}}
    with serving(tmp_path, ERAS[1]) as peer:
        made = peer.call("schedule_task", title="Pay", when="in 2 hours", approval=True)["structuredContent"]
        wish = {"name": "act_on_task", "arguments": {"task_id": made["id"], "action": "approve"}}
        approved = peer.ask("tools/call", **wish, _meta=capable)["result"]
    assert approved["structuredContent"]["state"] == "scheduled"

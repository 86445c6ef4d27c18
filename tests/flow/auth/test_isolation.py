"""Over MCP, a tenant learns nothing of another one: in no answer, error, list, subscription, log line or nearest id."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from duetime.server.auth.guard import Guard
from duetime.server.protocol.prompts import PROMPTS
from duetime.server.transport.serve_http import connect

from tests.flow.auth.conftest import MODERN, Site, serving

pytestmark = pytest.mark.anyio

CANARY = "canary7f3a"
EVENT = f"{CANARY}.paid"
ANY_ID = re.compile(r"\b[a-z]{1,2}_[0-9a-z]{12,21}")
INSTANT = re.compile(r'"[^"]*\d\d:\d\d[^"]*"')
KEY = f"key-{CANARY}"
APPS = "io.modelcontextprotocol/ui"
CAPABLE = MODERN | {
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {APPS: {"mimeTypes": ["text/html;profile=mcp-app"]}}}
}
"""A client that draws cards: it may call what only they do."""

ADDRESSES = ("duetime://inbox", "duetime://tasks/{task_id}")


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path, auth="keys") as found:
        yield found


@dataclass(frozen=True, slots=True)
class Foreign:
    """Names of another tenant that a caller could use; by default nothing has them."""

    task_id: str = "t_7k3m9qx2w4hb"
    waiting_id: str = "t_8k3m9qx2w4hb"
    undo: str = "u_b6287a9befee6161b7833"


async def filled(site: Site, token: str) -> Foreign:
    """Make tasks of a tenant with the canary wherever callers write."""
    made = await site.call(
        token,
        "schedule_task",
        title=f"{CANARY} report",
        when="in 2 hours",
        payload={"message": CANARY},
        labels=[CANARY],
        idempotency_key=KEY,
    )
    task_id: str = made["structuredContent"]["id"]
    await site.call(token, "schedule_task", title=f"{CANARY} daily", repeat="every day at 9:00")
    gone = await site.call(token, "schedule_task", title=f"{CANARY} gone", when="in 3 hours")
    many = await site.call(
        token, "change_tasks", change="cancel", task_ids=[gone["structuredContent"]["id"]], reason=CANARY
    )
    waits = await site.call(token, "schedule_task", title=f"{CANARY} waits", wait_for={"event": EVENT})
    await site.call(token, "schedule_task", title=f"{CANARY} follows", after=[task_id])
    await site.call(token, "send_event", name=f"{CANARY}.other", data={"word": CANARY}, event_id=KEY)
    return Foreign(task_id, waits["structuredContent"]["id"], many["structuredContent"]["bulk"]["undo"])


def questions(foreign: Foreign) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls by which a tenant could learn of a task of another one."""
    task_id = foreign.task_id
    near = task_id[:-1] + ("0" if task_id[-1] != "0" else "1")
    of = [{"task_id": each} for each in (task_id, near, foreign.waiting_id)]
    new = {"title": "Mine", "when": "in 2 hours", "dry_run": True}
    return [
        *(("list_tasks", {"query": text}) for text in (CANARY, CANARY[:4], CANARY.upper(), "report")),
        *(("list_tasks", {"state": state}) for state in ("open", "ended", "failed", "ready", "cancelled")),
        ("list_tasks", {}),
        ("list_tasks", {"label": CANARY}),
        ("list_tasks", {"before": "in 9 days", "after": "yesterday"}),
        *(("get_task", {**each, "history": True}) for each in of),
        *(("get_task", {**each, "wait": "1 second"}) for each in of),
        *(("reschedule_task", {**each, "when": "tomorrow"}) for each in of),
        *(("reschedule_task", {**each, "when": "tomorrow", "revision": 7}) for each in of),
        *(("cancel_task", {**each}) for each in of),
        *(("change_tasks", {"change": verb, "task_ids": [task_id, near]}) for verb in ("cancel", "pause", "run_now")),
        *(("change_tasks", {"change": "cancel", name: CANARY}) for name in ("query", "label")),
        ("change_tasks", {"change": "cancel", "query": CANARY, "expect": 4}),
        ("change_tasks", {"change": "undo", "undo": foreign.undo}),
        ("send_event", {"name": EVENT, "data": {}}),
        *(("schedule_task", {**new, "after": [each]}) for each in (task_id, near)),
        ("schedule_task", {**new, "when": None, "wait_for": {"event": EVENT}}),
        (
            "schedule_task",
            {"title": "Mine", "dry_run": True, "steps": [{"name": "one", "title": "A", "after": [task_id]}]},
        ),
        *(("act_on_task", {**each, "action": action}) for each in of for action in ("run_now", "skip_next", "done")),
        *(("act_on_task", {**each, "action": action}) for each in of for action in ("approve", "reject")),
        *(("act_on_task", {**each, "action": "undo", "undo": undo}) for each in of for undo in ("u_1", foreign.undo)),
        *(("act_on_task", {**each, "action": "snooze", "minutes": 5, "idempotency_key": KEY}) for each in of),
        ("find_runs", {}),
        *(("find_runs", {"until": "in 9 days", name: CANARY}) for name in ("text", "label")),
        *(("find_runs", {"tenant": tenant}) for tenant in ("acme", "*")),
        *(("find_runs", {**each, "count_by": group}) for each in of for group in ("state", "tenant", "error")),
    ]


def addresses(foreign: Foreign) -> list[str]:
    """Return what a tenant could read: each kind of address, with tasks of another one."""
    return [kind.format(task_id=each) for kind in ADDRESSES for each in (foreign.task_id, foreign.waiting_id)]


async def learned(site: Site, token: str, foreign: Foreign) -> list[str]:
    """Return all that a tenant is told, without what differs in any case: the ids that it named, and times."""
    told = [
        (await site.modern(token, "tools/call", name=tool, arguments=arguments, _meta=CAPABLE)).text
        for tool, arguments in questions(foreign)
    ]
    methods = ("resources/list", "resources/templates/list", "prompts/list", "tools/list")
    lists = [await site.modern(token, method, _meta=CAPABLE) for method in methods]
    read = [await site.modern(token, "resources/read", uri=uri) for uri in addresses(foreign)]
    prompts = [await site.modern(token, "prompts/get", name=name) for name in PROMPTS]
    ref = {"type": "ref/resource", "uri": "duetime://tasks/{task_id}"}
    begun = [{"name": "task_id", "value": value} for value in ("t_", foreign.task_id[:6], CANARY)]
    completed = [await site.modern(token, "completion/complete", ref=ref, argument=each) for each in begun]
    session = await site.session(token)
    subscribed = [
        await site.post(
            token, {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": uri}}, **session
        )
        for uri in addresses(foreign)
    ]
    texts = told + [each.text for each in (*lists, *read, *prompts, *completed, *subscribed)]
    return [INSTANT.sub('"<time>"', ANY_ID.sub("t_asked", text)) for text in texts]


def own_words_cut(text: str) -> str:
    """Return an answer without what the asking tenant wrote itself: its key, and the name of its event."""
    return text.replace(KEY, "").replace(EVENT, "")


async def test_a_tenant_is_told_the_same_whether_or_not_another_one_has_tasks(site: Site) -> None:
    ours, theirs = site.key("globex", "bob"), site.key("acme", "ann")
    before = await learned(site, ours, Foreign())
    foreign = await filled(site, theirs)
    after = await learned(site, ours, foreign)
    assert after == before
    assert [text for text in after if CANARY in own_words_cut(text)] == []


async def test_the_owner_is_told_of_them(site: Site) -> None:
    """The questions can show something."""
    theirs = site.key("acme", "ann")
    foreign = await filled(site, theirs)
    assert sum(CANARY in text.replace(KEY, "") for text in await learned(site, theirs, foreign)) > 10


async def test_the_attempts_of_a_tenant_change_nothing_of_another_one(site: Site) -> None:
    ours, theirs = site.key("globex", "bob"), site.key("acme", "ann")
    foreign = await filled(site, theirs)
    newest = site.app.store.history.latest()
    await learned(site, ours, foreign)
    assert site.app.store.history.latest() == newest


async def test_a_key_and_a_repeated_call_are_those_of_a_tenant(site: Site) -> None:
    ours, theirs = site.key("globex", "bob"), site.key("acme", "ann")
    call = {"title": f"{CANARY} report", "when": "in 2 hours", "idempotency_key": KEY}
    plain = {"title": "Call John", "when": "in 2 hours"}
    for arguments in (call, plain):
        first, second = [
            (await site.call(token, "schedule_task", **arguments))["structuredContent"] for token in (theirs, ours)
        ]
        assert first["id"] != second["id"]
        assert first["created"] is second["created"] is True
    other = await site.call(ours, "schedule_task", title="Another title", when="in 9 hours", idempotency_key=KEY)
    assert "was used before" in other["content"][0]["text"]  # our own task of that key


async def test_an_event_and_its_id_are_those_of_a_tenant(site: Site) -> None:
    ours, theirs = site.key("globex", "bob"), site.key("acme", "ann")
    foreign = await filled(site, theirs)
    sent = await site.call(ours, "send_event", name=EVENT, data={}, event_id=KEY)
    assert sent["structuredContent"]["freed"] == 0
    assert not sent["structuredContent"].get("repeated")
    waits = await site.call(theirs, "get_task", task_id=foreign.waiting_id)
    assert waits["structuredContent"]["state"] == "waiting"


async def test_every_tool_resource_and_prompt_is_asked_of_another_tenant(site: Site) -> None:
    """A new tool of the server has to be asked in `questions` too; pages of cards are the same for everybody."""
    server = connect(site.app, Guard.of(site.app.settings, lambda: site.app.store))
    assert {tool.name for tool in server._tool_manager.list_tools()} == {tool for tool, _ in questions(Foreign())}
    kinds = [*server._resource_manager._resources, *server._resource_manager._templates]
    assert {uri for uri in map(str, kinds) if not uri.startswith("ui://")} == set(ADDRESSES)
    assert {prompt.name for prompt in server._prompt_manager.list_prompts()} == set(PROMPTS)


async def test_users_of_one_tenant_share_tasks_and_not_inboxes(site: Site) -> None:
    ann, bob = site.key("acme", "ann"), site.key("acme", "bob")
    foreign = await filled(site, ann)
    seen = await site.call(bob, "get_task", task_id=foreign.task_id)
    assert seen["structuredContent"]["title"] == f"{CANARY} report"


async def test_logs_name_no_word_of_a_task(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    foreign = await filled(site, site.key("acme", "ann"))
    await learned(site, site.key("globex", "bob"), foreign)
    assert CANARY not in caplog.text

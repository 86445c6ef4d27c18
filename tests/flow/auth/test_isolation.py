"""Over MCP, a tenant learns nothing of another one: in no answer, error, list, subscription, log line or nearest id."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.flow.auth.conftest import Site, serving

pytestmark = pytest.mark.anyio

CANARY = "canary7f3a"
TASK_ID = re.compile(r"t_[0-9a-z]{12}")
INSTANT = re.compile(r'"[^"]*\d\d:\d\d[^"]*"')
KEY = f"key-{CANARY}"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path, auth="keys") as found:
        yield found


async def filled(site: Site, token: str) -> str:
    """Make tasks of a tenant with the canary wherever callers write; return the id of one."""
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
    await site.call(token, "cancel_task", task_id=gone["structuredContent"]["id"], reason=CANARY)
    return task_id


def questions(task_id: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the calls by which a tenant could learn of a task of another one."""
    near = task_id[:-1] + ("0" if task_id[-1] != "0" else "1")
    of = [{"task_id": each} for each in (task_id, near)]
    return [
        *(("list_tasks", {"query": text}) for text in (CANARY, CANARY[:4], CANARY.upper(), "report")),
        *(("list_tasks", {"state": state}) for state in ("open", "ended", "failed", "ready", "cancelled")),
        ("list_tasks", {}),
        ("list_tasks", {"label": CANARY}),
        ("list_tasks", {"before": "in 9 days", "after": "yesterday"}),
        *(("get_task", {**each, "history": True}) for each in of),
        *(("reschedule_task", {**each, "when": "tomorrow"}) for each in of),
        *(("reschedule_task", {**each, "when": "tomorrow", "revision": 7}) for each in of),
        *(("cancel_task", {**each}) for each in of),
        *(("act_on_task", {**each, "action": action}) for each in of for action in ("run_now", "skip_next", "done")),
        *(("act_on_task", {**each, "action": "undo", "undo": "u_1"}) for each in of),
        *(("act_on_task", {**each, "action": "snooze", "minutes": 5, "idempotency_key": KEY}) for each in of),
        ("find_runs", {}),
        *(("find_runs", {"until": "in 9 days", name: CANARY}) for name in ("text", "label")),
        *(("find_runs", {"tenant": tenant}) for tenant in ("acme", "*")),
        *(("find_runs", {**each, "count_by": group}) for each in of for group in ("state", "tenant", "error")),
    ]


async def learned(site: Site, token: str, task_id: str) -> list[str]:
    """Return all that a tenant is told, without what differs in any case: the ids that it named, and times."""
    told = [(await site.call(token, tool, **arguments)) for tool, arguments in questions(task_id)]
    lists = [await site.modern(token, method) for method in ("resources/list", "prompts/list", "tools/list")]
    uris = ("duetime://inbox", f"duetime://tasks/{task_id}")
    read = [await site.modern(token, "resources/read", uri=uri) for uri in uris]
    ref = {"type": "ref/resource", "uri": "duetime://tasks/{task_id}"}
    argument = {"name": "task_id", "value": "t_"}
    completed = await site.modern(token, "completion/complete", ref=ref, argument=argument)
    texts = [json.dumps(each) for each in told] + [each.text for each in (*lists, *read, completed)]
    return [INSTANT.sub('"<time>"', TASK_ID.sub("t_asked", text)) for text in texts]


async def test_a_tenant_is_told_the_same_whether_or_not_another_one_has_tasks(site: Site) -> None:
    ours, theirs = site.key("globex", "bob"), site.key("acme", "ann")
    before = await learned(site, ours, "t_7k3m9qx2w4hb")
    task_id = await filled(site, theirs)
    after = await learned(site, ours, task_id)
    assert after == before
    assert all(CANARY not in text.replace(KEY, "") for text in after)


async def test_the_owner_is_told_of_them(site: Site) -> None:
    """The questions can show something."""
    theirs = site.key("acme", "ann")
    task_id = await filled(site, theirs)
    assert sum(CANARY in text.replace(KEY, "") for text in await learned(site, theirs, task_id)) > 10


async def test_the_attempts_of_a_tenant_change_nothing_of_another_one(site: Site) -> None:
    ours, theirs = site.key("globex", "bob"), site.key("acme", "ann")
    task_id = await filled(site, theirs)
    newest = site.app.store.history.latest()
    await learned(site, ours, task_id)
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
    assert "already created" in other["content"][0]["text"]  # our own task of that key


async def test_users_of_one_tenant_share_tasks_and_not_inboxes(site: Site) -> None:
    ann, bob = site.key("acme", "ann"), site.key("acme", "bob")
    task_id = await filled(site, ann)
    seen = await site.call(bob, "get_task", task_id=task_id)
    assert seen["structuredContent"]["title"] == f"{CANARY} report"


async def test_logs_name_no_word_of_a_task(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    task_id = await filled(site, site.key("acme", "ann"))
    await learned(site, site.key("globex", "bob"), task_id)
    assert CANARY not in caplog.text

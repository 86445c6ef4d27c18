"""Each request is its own token's principal, and a session belongs to the principal that opened it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.principal import LOCAL
from duetime.server.auth.caller import identify, request_caller
from mcp.shared.exceptions import MCPError

from tests.flow.auth.conftest import Site, serving

pytestmark = pytest.mark.anyio

LIST = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "list_tasks", "arguments": {}}}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with serving(tmp_path, auth="keys") as found:
        yield found


async def test_a_session_serves_the_principal_that_opened_it(site: Site) -> None:
    key = site.key("acme", "ann")
    await site.call(key, "schedule_task", title="Call John", when="in 2 hours")
    answer = await site.post(key, LIST, **await site.session(key))
    assert answer.json()["result"]["structuredContent"]["tasks"][0]["title"] == "Call John"


@pytest.mark.parametrize("other", [("globex", "bob"), ("globex", "ann"), ("acme", "bob")])
async def test_a_session_of_another_principal_does_not_exist(site: Site, other: tuple[str, str]) -> None:
    session = await site.session(site.key("acme", "ann"))
    stranger = site.key(*other)
    for _ in range(2):  # a session that is told to be dead is served without one the next time; this one lives
        assert (await site.post(stranger, LIST, **session)).status_code == 404
    given = {"Authorization": f"Bearer {stranger}", "Accept": "text/event-stream", **session}
    assert (await site.http.get("/mcp", headers=given)).status_code == 404
    assert (await site.http.delete("/mcp", headers=given)).status_code == 404


async def test_a_stranger_takes_no_session_from_its_owner(site: Site) -> None:
    key, stranger = site.key("acme", "ann"), site.key("globex", "bob")
    session = await site.session(key)
    await site.post(stranger, LIST, **session)
    subscribe = {"jsonrpc": "2.0", "id": 3, "method": "resources/subscribe", "params": {"uri": "duetime://inbox"}}
    assert (await site.post(key, subscribe, **session)).json()["result"] == {}
    ended = await site.http.delete("/mcp", headers={"Authorization": f"Bearer {key}", **session})
    assert ended.status_code == 200


async def test_another_key_of_the_same_principal_goes_on_with_its_session(site: Site) -> None:
    first, rotated = site.key("acme", "ann"), site.key("acme", "ann")
    assert (await site.post(rotated, LIST, **await site.session(first))).status_code == 200


async def test_a_session_does_not_outlive_the_scope_or_the_key_of_a_call(site: Site) -> None:
    first, narrow = site.key("acme", "ann"), site.key("acme", "ann", scopes=("worker",))
    session = await site.session(first)
    assert (await site.post(narrow, LIST, **session)).status_code == 403
    site.app.store.api_keys.revoke(first.split("_")[1])
    assert (await site.post(first, LIST, **session)).status_code == 401


async def test_without_auth_everyone_is_the_local_user(tmp_path: Path) -> None:
    async with serving(tmp_path) as site:
        made = await site.call(None, "schedule_task", title="Call John", when="in 2 hours")
        task = site.app.store.tasks.get(LOCAL.tenant, made["structuredContent"]["id"]).task
    assert task.owner == LOCAL.user


async def test_a_request_that_no_token_came_with_is_never_served() -> None:
    async def served(_: Any) -> None:
        pytest.fail("it was served")

    class Context:
        request = None

    with pytest.raises(MCPError, match="Authentication required"):
        await identify(Context(), served)  # type: ignore[arg-type]  # of a request, all that it reads
    with pytest.raises(LookupError):
        request_caller()

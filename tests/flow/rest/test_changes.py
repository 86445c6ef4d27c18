"""The stream of changes: what happens to the tasks of a tenant, as it happens, and nothing of another one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from duetime.server.rest import change_feed, changes
from duetime.server.rest.change_feed import MAX_WAITING_EVENTS, ChangeStream

from tests.flow.auth.conftest import Site, bearer
from tests.flow.rest.conftest import made, sent

pytestmark = pytest.mark.anyio

PATIENCE_S = 60.0


@dataclass
class Listening:
    """An open stream as a client reads it; `status` is that of its answer."""

    status: int = 0
    text: str = ""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self) -> None:
        self.over.set()
        self.came.set()

    async def event(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Return the events of a kind, as soon as there are so many."""
        async with asyncio.timeout(PATIENCE_S):
            while len(found := self.events(kind)) < count and not self.over.is_set():
                await self.came.wait()
                self.came.clear()
        return found

    def events(self, kind: str) -> list[dict[str, Any]]:
        blocks = [dict(line.split(": ", 1) for line in block.splitlines()) for block in self.text.split("\n\n")[:-1]]
        return [{**json.loads(block["data"]), "id": block["id"]} for block in blocks if block.get("event") == kind]


@asynccontextmanager
async def listening(site: Site, token: str | None = None, query: str = "", **headers: str) -> AsyncIterator[Listening]:
    """Read a stream while the block runs: the client of the other tests reads nothing before the end."""
    found, left = Listening(), asyncio.Event()
    given = {"Host": "127.0.0.1", **(bearer(token) if token else {}), **headers}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/v1/changes",
        "raw_path": b"/v1/changes",
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    requested = False

    async def receive() -> dict[str, Any]:
        nonlocal requested
        if requested:
            await left.wait()
            return {"type": "http.disconnect"}
        requested = True
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        found.status = message.get("status", found.status)
        found.text += message.get("body", b"").decode()
        found.came.set()

    app: Any = site.http._transport
    task = asyncio.create_task(app.app(scope, receive, send))
    task.add_done_callback(lambda _: found.end())
    try:
        yield found
    finally:
        left.set()
        async with asyncio.timeout(PATIENCE_S):
            await task


async def test_changes_are_told_as_they_happen(site: Site) -> None:
    async with listening(site) as stream:
        await stream.event("open")
        task = await made(site)
        await sent(site, "POST", f"/tasks/{task['id']}/pause")
        told = await stream.event("change", 2)

    assert stream.status == 200
    assert [(event["task_id"], event["kind"], event["seq"]) for event in told] == [
        (task["id"], "created", 1),
        (task["id"], "paused", 2),
    ]


async def test_a_stream_goes_on_behind_the_last_event_that_was_read(site: Site) -> None:
    async with listening(site) as first:
        await first.event("open")
        task = await made(site)
        [created] = await first.event("change")
    for name in ("pause", "resume"):
        await sent(site, "POST", f"/tasks/{task['id']}/{name}")
    async with listening(site, **{"Last-Event-ID": created["id"]}) as second:
        missed = await second.event("change", 2)
        await sent(site, "POST", f"/tasks/{task['id']}/cancel")
        told = await second.event("change", 3)

    assert [event["kind"] for event in missed] == ["paused", "resumed"]
    assert [event["kind"] for event in told] == ["paused", "resumed", "cancelled"]


async def test_a_stream_that_missed_too_much_is_told_to_read_the_lists_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listening(site, query="seconds=0") as first:
        [begin] = await first.event("open")
    monkeypatch.setattr(changes, "MAX_RESUMED_EVENTS", 2)
    monkeypatch.setattr(changes, "EVENTS_PER_READ", 1)
    for _ in range(3):
        await made(site)
    async with listening(site, **{"Last-Event-ID": begin["id"]}) as stream:
        await stream.event("reset")
        await made(site)
        told = await stream.event("change", 3)
    assert len(told) == 3


async def test_a_tenant_hears_nothing_of_another_one(guarded: Site) -> None:
    ours, theirs = guarded.key("globex", "bob"), guarded.key("acme", "ann")
    async with listening(guarded, ours) as stream, listening(guarded, theirs) as other:
        await stream.event("open")
        await other.event("open")
        await made(guarded, theirs, title="canary7f3a")
        [told] = await other.event("change")
        own = await made(guarded, ours)
        [heard] = await stream.event("change")
    refused = await sent(guarded, "GET", "/changes", token=ours, headers={"Last-Event-ID": told["id"]})

    assert heard["task_id"] == own["id"]
    assert "canary7f3a" not in stream.text
    assert refused.status_code == 422
    assert refused.json()["argument"] == "Last-Event-ID"


async def test_the_stream_of_a_revoked_key_ends(guarded: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.server.protocol.subscriber_tokens.TOKEN_CHECK_INTERVAL_S", 0.0)
    key, other = guarded.key("acme", "ann"), guarded.key("acme", "eve")
    async with listening(guarded, key) as stream:
        await stream.event("open")
        guarded.app.store.api_keys.revoke(key.split("_")[1])
        await made(guarded, other)
        async with asyncio.timeout(PATIENCE_S):
            await stream.over.wait()
    assert stream.events("change") == []


async def test_a_tenant_has_so_many_streams_and_no_more(guarded: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_feed, "MAX_TENANT_STREAMS_COUNT", 1)
    ann, bob = guarded.key("acme", "ann"), guarded.key("globex", "bob")
    async with listening(guarded, ann) as first:
        await first.event("open")
        async with listening(guarded, ann) as second:
            await second.over.wait()
        async with listening(guarded, bob, query="seconds=0") as other:
            await other.over.wait()
    async with listening(guarded, ann, query="seconds=0") as again:
        await again.over.wait()

    assert (first.status, second.status, other.status, again.status) == (200, 429, 200, 200)
    assert json.loads(second.text)["code"] == "too_many_streams"


async def test_a_stream_that_nobody_reads_ends_instead_of_growing() -> None:
    stream: Any = ChangeStream("acme")
    for number in range(MAX_WAITING_EVENTS + 1):
        stream.add(number)
    assert stream.ended
    assert await stream.wait(0) == [*range(MAX_WAITING_EVENTS)]


async def test_without_a_stream_nobody_looks(site: Site) -> None:
    tasks = len(asyncio.all_tasks())
    async with listening(site, query="seconds=0") as stream:
        await stream.over.wait()
    async with asyncio.timeout(PATIENCE_S):
        while len(asyncio.all_tasks()) > tasks:  # noqa: ASYNC110 - the loop has to end the task that looked
            await asyncio.sleep(0)

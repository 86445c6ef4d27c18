"""Fair shares hold between tenants over MCP and REST: a flood of one delays another by a run of each thread."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
from duetime.scheduler.handlers import Context, handler
from duetime.scheduler.outcomes import Done
from duetime.server.app import Role, build
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.flow.auth.conftest import Site, bearer, serving
from tests.flow.waiting import eventually

THREAD_COUNT = 4
FLOOD_COUNT = 500
SHARED_FLOOD_COUNT = 100


class Turns:
    """Runs that end when the test lets them, and the order in which they started."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self._ends = threading.Semaphore(0)

    def run(self, ctx: Context) -> Done:
        self.started.append(ctx.title)
        while not (self._ends.acquire(timeout=0.02) or ctx.cancelled):
            pass
        return Done()

    def end_one(self) -> None:
        """Let a run end, and wait for the start of the next."""
        count = len(self.started)
        self._ends.release()
        eventually(lambda: len(self.started) > count, "the next run to start")


async def over_mcp(site: Site, key: str, titles: list[str]) -> None:
    """Schedule tasks as an MCP client with the key of a tenant."""
    async with (
        httpx2.AsyncClient(transport=site.http._transport, base_url="http://127.0.0.1", headers=bearer(key)) as http,
        Client(streamable_http_client("http://127.0.0.1/mcp", http_client=http)) as client,
    ):
        for title in titles:
            answer = await client.call_tool("schedule_task", {"title": title, "action": "takes-turns"})
            assert not answer.is_error, answer


async def over_rest(site: Site, key: str, titles: list[str]) -> None:
    """Schedule tasks by REST with the key of a tenant."""
    for title in titles:
        answer = await site.http.post("/v1/tasks", json={"title": title, "action": "takes-turns"}, headers=bearer(key))
        assert answer.status_code == HTTPStatus.CREATED, answer.text


Schedule = Callable[[Site, str, list[str]], Awaitable[None]]


async def starts_within_a_run_of_each_thread(
    site: Site, turns: Turns, flood_over: Schedule, single_over: Schedule, count: int
) -> None:
    """Schedule many tasks of a tenant, then one of another; it is to start when each thread has ended one run."""
    await flood_over(site, site.key("acme", "ann"), [f"A{number}" for number in range(count)])
    eventually(lambda: turns.started, "the flood to begin")
    await single_over(site, site.key("globex", "bob"), ["B"])
    before = len(turns.started)
    for _ in range(THREAD_COUNT):
        turns.end_one()
    assert "B" in turns.started[before:]
    assert len(turns.started) < count / 2


@pytest.mark.anyio
@pytest.mark.parametrize("schedule", [over_mcp, over_rest])
async def test_one_task_of_a_tenant_starts_within_a_run_of_each_thread_of_another_ones_flood(
    tmp_path: Path, schedule: Schedule
) -> None:
    turns = Turns()
    takes_turns = handler("takes-turns", estimate=1)(turns.run)
    given: dict[str, Any] = {"threads": THREAD_COUNT, "yield_to_load": False, "grace_seconds": 0}
    async with serving(tmp_path, auth="keys", handlers=[takes_turns], **given) as site:
        await starts_within_a_run_of_each_thread(site, turns, schedule, schedule, FLOOD_COUNT)


@pytest.mark.anyio
@pytest.mark.postgres
@pytest.mark.parametrize(("flood_over", "single_over"), [(over_mcp, over_rest), (over_rest, over_mcp)])
async def test_so_does_one_that_comes_by_another_way_where_workers_share_a_queue_in_redis(
    tmp_path: Path, migrated_postgres_url: str, valkey_url: str, flood_over: Schedule, single_over: Schedule
) -> None:
    turns = Turns()
    takes_turns = handler("takes-turns", estimate=1)(turns.run)
    shared = {"database_url": migrated_postgres_url, "redis_url": valkey_url, "redis_namespace": f"fair-{uuid4().hex}"}
    given: dict[str, Any] = {**shared, "threads": THREAD_COUNT, "yield_to_load": False, "grace_seconds": 0}
    async with serving(tmp_path, auth="keys", handlers=[takes_turns], **given) as site:
        with build(site.app.settings, handlers=[takes_turns], role=Role.WORK) as worker:
            worker.start()
            await starts_within_a_run_of_each_thread(site, turns, flood_over, single_over, SHARED_FLOOD_COUNT)

"""Spans of the MCP SDK are made where OpenTelemetry keeps them, and nowhere else: each costs every call."""

from __future__ import annotations

import sys

import anyio
import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.server.protocol.server import make_server
from duetime.server.protocol.subscriptions import Subscriptions
from mcp import Client
from mcp.shared._otel import otel_span

SDK = "opentelemetry.sdk.trace"


@pytest.mark.parametrize(("kept", "spans"), [(True, ["tools/call list_tasks"]), (False, [])])
def test_a_call_has_a_span_only_where_the_sdk_of_opentelemetry_is_loaded(
    store: Store, monkeypatch: pytest.MonkeyPatch, kept: bool, spans: list[str]
) -> None:
    __import__(SDK)  # so that it is put back
    made: list[str] = []

    def noted(name: str, **options: object) -> object:
        made.append(name)
        return otel_span(name, **options)  # type: ignore[arg-type]  # as the SDK calls it

    monkeypatch.setattr("mcp.server._otel.otel_span", noted)
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))
    server = make_server(lambda: scheduler, Subscriptions(lambda: store.history))

    async def call() -> None:
        async with Client(server, mode="2026-07-28") as client:
            made.clear()
            if not kept:
                monkeypatch.delitem(sys.modules, SDK)
            await client.call_tool("list_tasks", {})

    anyio.run(call)
    assert [name for name in made if name.startswith("tools/call")] == spans

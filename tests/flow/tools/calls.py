"""Calls of tools without a client: what a model reads, and the structure next to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.outcomes import Outcome
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.tools.registration import make_tools
from mcp.types import CallToolResult, TextContent

from tests.widgets.published import assert_published

Ask = Callable[..., tuple[str, dict[str, Any]]]
Answer = Callable[[str, dict[str, Any]], tuple[bool, str]]
"""Calls a tool; returns whether the call was accepted, and what a model reads."""

CONTEXT: Any = None  # what the SDK hands to tools; ours ask it nothing


def asked_of(scheduler: Scheduler) -> Ask:
    """Return a function that calls a tool, and returns its text and its structured content."""
    tools = {tool.name: tool for tool in make_tools(lambda: scheduler)}

    def ask(tool: str, /, **arguments: Any) -> tuple[str, dict[str, Any]]:
        answer = asyncio.run(tools[tool].run(arguments, CONTEXT))
        assert isinstance(answer, CallToolResult)
        [part] = answer.content
        assert isinstance(part, TextContent)
        assert answer.structured_content is not None, part.text
        assert_published(answer.structured_content)
        return part.text, answer.structured_content

    return ask


def answers_of(scheduler: Scheduler) -> Answer:
    """Return a function that calls a tool, which may refuse."""
    tools = {tool.name: tool for tool in make_tools(lambda: scheduler)}

    def call(tool: str, given: dict[str, Any]) -> tuple[bool, str]:
        found = asyncio.run(tools[tool].run(given, CONTEXT))
        assert isinstance(found, CallToolResult)
        assert isinstance(found.content[0], TextContent)
        return not found.is_error, found.content[0].text

    return call


def settled(store: Store, now: datetime, outcome: Outcome, *, traceback: str | None = None) -> None:
    """Let what is due run, and end with an outcome."""
    ready = [Start(run.run_id) for run in store.claims.make_ready(limit=99)]
    claims = store.claims.start(ready, worker="w", epoch=None, lease=timedelta(seconds=30))
    ends = [settle(claim, outcome, now=now, jitter=0.0) for claim in claims]
    store.claims.settle([replace(end, traceback=traceback) for end in ends])

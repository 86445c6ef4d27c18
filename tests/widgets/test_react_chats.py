"""The React card in chats of the Vercel AI SDK and of CopilotKit: compiled against both, and used in a browser."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.widgets.browsers import opened
from tests.widgets.react_card import CHATS, ORIGIN, Demo, build
from tests.widgets.tooling import ROOT

pytestmark = pytest.mark.browser

TASK = json.loads((ROOT / "docs" / "payloads" / "task.json").read_text("utf-8"))["examples"][0]
RESULT = {"content": [{"type": "text", "text": "Scheduled."}], "structuredContent": TASK}
NAMED = {"toolCallId": "call_1", "toolName": "schedule_task", "dynamic": True}
TURN: list[dict[str, Any]] = [
    {"type": "start"},
    {"type": "tool-input-available", **NAMED, "input": {"title": "Call John"}},
    {"type": "tool-output-available", "toolCallId": "call_1", "dynamic": True, "output": RESULT},
    {"type": "text-start", "id": "t"},
    {"type": "text-delta", "id": "t", "delta": "Done."},
    {"type": "text-end", "id": "t"},
    {"type": "finish"},
]
"""A turn of a model, as the SDK's `toUIMessageStreamResponse` sends it."""


def test_both_chats_compile_and_show_the_card_of_a_call(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project: Path = build(tmp_path_factory.mktemp("chats"), CHATS)
    stream = "".join(f"data: {json.dumps(part)}\n\n" for part in TURN) + "data: [DONE]\n\n"
    with opened(browser, viewport={"width": 600, "height": 900}, timezone_id="America/Denver") as page:
        page.clock.set_fixed_time(TASK["now"])
        demo = Demo(page, project / "dist")
        demo.open("Chats with the cards of Duetime")
        page.route(
            f"{ORIGIN}/api/chat",
            lambda route: route.fulfill(
                body=stream, content_type="text/event-stream", headers={"x-vercel-ai-ui-message-stream": "v1"}
            ),
        )
        page.route(f"{ORIGIN}/v1/tasks/*/cancel", lambda route: route.fulfill(json={**TASK, "state": "cancelled"}))
        page.get_by_role("button", name="Remind me to call John").click()
        for chat in ("Vercel AI SDK", "CopilotKit"):
            card = demo.card(chat).get_by_role("article", name="Call John")
            card.get_by_role("button", name="Cancel").click()
            expect(card.get_by_role("status")).to_contain_text("Cancelled")
        expect(demo.card("Vercel AI SDK")).to_contain_text("Done.")
        assert demo.problems == []

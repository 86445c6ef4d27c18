"""The card of what failed: its dead letter is shown, its payload edited and run again, the letter discarded."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.card.test_contrast import violations
from tests.widgets.chat import Chat
from tests.widgets.sample import BULK_UNDO, CALL_JOHN, NOW, a_task, stamp, weekly

pytestmark = pytest.mark.browser

PAYLOAD = {"url": "https://example.com/orders", "body": "order 7"}
FACTS = {
    "run": "r_7k3m9qx2w4hb00000000",
    "state": "open",
    "since": stamp(NOW),
    "attempts": 3,
    "reason": "404 Not Found",
}
LAST = {"state": "failed", "ended": stamp(NOW), "summary": "404 Not Found", "attempts": 3}


def show(chat: Chat, **parts: Any) -> None:
    chat.server.letter = {**FACTS, "payload": PAYLOAD}
    given = {"state": "failed", "action": "webhook", "delivery": None, "last_run": LAST, **parts}
    context = given.pop("context", {})
    chat.show_task(a_task(due=NOW - timedelta(minutes=1), **given), **context)
    chat.press("Payload")


def test_its_facts_are_shown_and_another_payload_is_checked_and_run(chat: Chat) -> None:
    show(chat)
    panel = chat.card.locator(".panel-letter")
    expect(panel).to_contain_text("Last time: failed")
    expect(panel).to_contain_text("3 attempts")
    expect(panel).not_to_contain_text("404 Not Found")  # the card says it already
    field = chat.card.get_by_role("textbox", name="Payload")
    field.fill('{"url": ')
    expect(panel.get_by_role("alert")).to_have_text("This is not a JSON object.")
    before = len(chat.calls())
    panel.get_by_role("button", name="Run again").click()
    assert len(chat.calls()) == before, "nothing is sent that cannot be read"
    field.fill('{"url": "https://example.com/orders", "body": "order 8"}')
    chat.click(panel.get_by_role("button", name="Run again"))
    changed = {**PAYLOAD, "body": "order 8"}
    asked = {"task_id": CALL_JOHN, "revision": 3, "payload": changed, "when": "now"}
    assert ("reschedule_task", asked) in chat.calls()


def test_it_is_discarded_and_that_is_taken_back(chat: Chat) -> None:
    show(chat)
    chat.press("Discard")
    asked = {"change": "discard", "task_ids": [CALL_JOHN], "reason": "on its card"}
    assert ("change_tasks", asked) in chat.calls()
    expect(chat.card.locator(".undo")).to_contain_text("Discarded.")
    chat.press("Payload")
    expect(chat.button("Discard")).to_have_count(0)
    chat.press("Undo")
    assert ("change_tasks", {"change": "undo", "undo": BULK_UNDO}) in chat.calls()
    chat.press("Payload")
    expect(chat.button("Discard")).to_be_visible()


def test_that_of_a_series_is_run_again_as_it_was(chat: Chat) -> None:
    show(chat, state="scheduled", repeat=weekly())
    field = chat.card.get_by_role("textbox", name="Payload")
    expect(field).to_have_attribute("readonly", "")
    chat.click(chat.card.locator(".panel-letter").get_by_role("button", name="Run again"))
    assert ("act_on_task", {"task_id": CALL_JOHN, "revision": 3, "action": "run_now"}) in chat.calls()


@pytest.mark.parametrize(("theme", "width"), [("light", None), ("dark", 320)])
def test_it_reads_well_and_is_clean(chat: Chat, theme: str, width: int | None) -> None:
    show(chat, context={"theme": theme, "width": width})
    assert violations(chat) == []
    chat.picture(f"task-card-letter-{theme}")

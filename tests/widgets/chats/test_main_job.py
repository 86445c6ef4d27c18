"""The main job on real input: a real client schedules over stdio, the reminder is delivered, and the card shows it."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from playwright.sync_api import Page, expect

from tests.widgets.chat import Chat
from tests.widgets.live import LiveServer
from tests.widgets.sample import DENVER

pytestmark = pytest.mark.browser

KEEP_STATES = """() => {
  window.states = [];
  const look = () => document.querySelectorAll(".state[data-state]").forEach((node) => states.push(node.textContent));
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true });
}"""
"""A state may be over before a test looks."""


def test_a_reminder_in_six_seconds_is_delivered_and_its_card_shows_it_happen(today: Page, live: LiveServer) -> None:
    chat = Chat(today, live.serve)
    chat.load("task-card", timeZone=DENVER)
    chat.card.evaluate(KEEP_STATES)
    scheduled = live.call("schedule_task", {"title": "Stretch", "when": "in 6 seconds"})
    chat.show(scheduled["structuredContent"])
    expect(chat.state()).to_have_text("Reminded")
    assert chat.card.evaluate("states[0]") == "Scheduled"

    task = live.call("get_task", {"task_id": scheduled["structuredContent"]["id"]})["structuredContent"]
    assert (task["state"], "summary" in task["last_run"]) == ("succeeded", False)
    assert (task["delivery"]["channel"], task["delivery"]["state"]) == ("inbox", "delivered")
    assert "Unread (" in live.call("list_tasks", {})["content"][0]["text"]

    chat.press("History")
    expect(chat.card.get_by_role("list", name="History, newest first")).to_be_visible()
    assert "Unread (" in live.call("list_tasks", {})["content"][0]["text"]  # the model has not been told

    chat.press("Done")
    expect(chat.button("Done")).to_have_count(0)
    assert "Unread (" not in live.call("list_tasks", {})["content"][0]["text"]
    chat.press("Undo")
    expect(chat.button("Done")).to_be_visible()
    assert "Unread (" in live.call("list_tasks", {})["content"][0]["text"]
    assert chat.problems == []


def test_the_buttons_of_a_card_change_the_real_task(today: Page, live: LiveServer) -> None:
    scheduled = live.call("schedule_task", {"title": "Call John", "when": "tomorrow 9am"})
    task_id = scheduled["structuredContent"]["id"]
    chat = Chat(today, live.serve)
    chat.load("task-card", timeZone=DENVER)
    chat.show(scheduled["structuredContent"])

    chat.press("Cancel")
    expect(chat.card.get_by_text("Cancelled", exact=True).first).to_be_visible()
    assert live.call("get_task", {"task_id": task_id})["structuredContent"]["state"] == "cancelled"

    chat.press("Undo")
    expect(chat.card.get_by_text("Scheduled", exact=True).first).to_be_visible()
    assert live.call("get_task", {"task_id": task_id})["structuredContent"]["state"] == "scheduled"

    live.call("reschedule_task", {"task_id": task_id, "when": "tomorrow 10am"})
    chat.press("Cancel")
    expect(chat.card.get_by_text("10:00").first).to_be_visible()
    assert live.call("get_task", {"task_id": task_id})["structuredContent"]["state"] == "scheduled"
    assert chat.problems == []


def daily(live: LiveServer, title: str) -> dict[str, Any]:
    """Schedule a task for each day, next at an hour that is not near: nothing fires in the middle of a test.

    Each test has a title of its own: an equal call within a minute gets the task of the one before.
    """
    hour = 18 if datetime.now(ZoneInfo(DENVER)).hour < 12 else 6
    asked = {"title": title, "repeat": f"every day at {hour}:00"}
    task: dict[str, Any] = live.call("schedule_task", asked)["structuredContent"]
    return task


def test_changes_by_the_buttons_are_undone_on_the_real_server(today: Page, live: LiveServer) -> None:
    scheduled = daily(live, "Notes")
    chat = Chat(today, live.serve)
    chat.load("task-card", timeZone=DENVER)
    chat.show(scheduled)

    for name in ("Pause", "Skip next"):
        chat.press("More")
        chat.press(name)
        expect(chat.card.locator(".undo")).to_be_visible()
        chat.press("Undo")
        expect(chat.card.locator(".undo")).to_have_count(0)
        back = live.call("get_task", {"task_id": scheduled["id"]})["structuredContent"]
        assert ("paused" in back, back["when"]["utc"]) == (False, scheduled["when"]["utc"])
    assert chat.problems == []


def test_one_occurrence_moves_or_all_that_follow_as_the_card_says(today: Page, live: LiveServer) -> None:
    scheduled = daily(live, "Minutes")
    day, hour = scheduled["when"]["local"][:10], scheduled["when"]["local"][11:13]
    chat = Chat(today, live.serve)
    chat.load("task-card", timeZone=DENVER)
    chat.show(scheduled)

    chat.press("Move")
    chat.card.get_by_label("New time").fill(f"{day}T{hour}:30")
    expect(chat.card.get_by_text("Then:")).to_contain_text(f"{int(hour) % 12}:30")
    chat.press("Save")
    expect(chat.card.get_by_text("Only the next one was moved")).to_be_visible()
    moved = live.call("get_task", {"task_id": scheduled["id"]})["structuredContent"]["repeat"]
    assert [text[11:16] for text in moved["next"]] == [f"{hour}:30", *[f"{hour}:00"] * 4]

    chat.press("Move")
    chat.card.get_by_label("New time").fill(f"{day}T{hour}:45")
    chat.click(chat.card.get_by_role("radio", name="All following"))
    chat.press("Save")
    expect(chat.card.get_by_text(f"every day at {int(hour) % 12}:45")).to_be_visible()
    assert chat.problems == []

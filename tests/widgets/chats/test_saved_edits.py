"""Edits on a card are saved: the real server says afterwards what the card says."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.widgets.card.test_task_card_edit import edit
from tests.widgets.chat import Chat
from tests.widgets.live import LiveServer

pytestmark = pytest.mark.browser


def scheduled(page: Page, live: LiveServer, **arguments: Any) -> tuple[Chat, str]:
    """Schedule a task and open the panel that edits it."""
    task = live.call("schedule_task", {"title": "Call John", **arguments})["structuredContent"]
    chat = Chat(page, live.serve)
    chat.load("task-card", timeZone="America/Denver")
    chat.show(task)
    edit(chat)
    return chat, task["id"]


def task_of(live: LiveServer, task_id: str) -> dict[str, Any]:
    found: dict[str, Any] = live.call("get_task", {"task_id": task_id})["structuredContent"]
    return found


def test_every_field_of_a_task_is_changed_as_it_was_typed(today: Page, live: LiveServer) -> None:
    chat, task_id = scheduled(today, live, when="tomorrow 9am")

    chat.card.get_by_label("Title").fill("Call Jane")
    chat.card.get_by_label("Message").fill("She has the keys")
    chat.card.get_by_label("Priority").select_option("High")
    chat.card.get_by_label("Deadline").fill("2030-01-02T10:30")
    chat.press("Save")

    expect(chat.card.get_by_role("heading")).to_have_text("Call Jane")
    for text in ("She has the keys", "High priority", "Finish by Wed, Jan 2, 2030, 10:30 AM"):
        expect(chat.card.get_by_text(text, exact=True)).to_be_visible()
    task = task_of(live, task_id)
    assert (task["title"], task["message"], task["priority"]) == ("Call Jane", "She has the keys", "high")
    assert task["deadline"]["local"].startswith("2030-01-02T10:30")
    assert chat.problems == []


def test_a_recurrence_is_tried_before_it_is_saved_and_can_be_taken_away(today: Page, live: LiveServer) -> None:
    chat, task_id = scheduled(today, live, when="tomorrow 9am", repeat="every day at 9:00")
    field = chat.card.get_by_label("Repeat")
    expect(field).to_have_value("every day at 09:00")
    expect(chat.card.get_by_text("These apply to all that follow.")).to_be_visible()

    field.fill("every blue moon")
    expect(chat.card.get_by_text("'every blue moon'")).to_be_visible()
    field.fill("every day at 10:00")
    expect(chat.card.get_by_text("Then: ")).to_contain_text("10:00 AM")
    assert task_of(live, task_id)["repeat"]["text"] == "every day at 09:00"
    field.press("Enter")

    expect(chat.card.get_by_text("every day at 10:00")).to_be_visible()
    assert task_of(live, task_id)["repeat"]["text"] == "every day at 10:00"

    edit(chat)
    chat.card.get_by_label("Repeat").fill("")
    chat.press("Save")
    expect(chat.card.get_by_text("every day at 10:00")).to_have_count(0)
    assert "repeat" not in task_of(live, task_id)
    assert chat.problems == []


def test_an_emptied_message_and_deadline_go(today: Page, live: LiveServer) -> None:
    chat, task_id = scheduled(
        today, live, when="tomorrow 9am", payload={"message": "He has the keys"}, deadline="2030-01-02T10:30"
    )
    chat.card.get_by_label("Message").fill("")
    chat.card.get_by_label("Deadline").fill("")
    chat.press("Save")

    expect(chat.card.get_by_text("He has the keys")).to_have_count(0)
    assert {"message", "deadline"} & set(task_of(live, task_id)) == set()


def test_a_title_without_a_message_of_its_own_is_what_the_reminder_says(today: Page, live: LiveServer) -> None:
    chat, task_id = scheduled(today, live, when="tomorrow 9am", payload={"message": "Call John"})
    chat.card.get_by_label("Title").fill("Call Jane")
    chat.card.get_by_label("Title").press("Enter")
    expect(chat.card.get_by_role("heading")).to_have_text("Call Jane")
    assert "message" not in task_of(live, task_id)

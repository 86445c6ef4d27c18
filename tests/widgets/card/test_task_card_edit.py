"""A task is edited in place on its card: the real server says afterwards what the card says."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.widgets.chat import Chat
from tests.widgets.live import LiveServer
from tests.widgets.sample import a_task, soon, weekly

pytestmark = pytest.mark.browser


def scheduled(page: Page, live: LiveServer, **arguments: Any) -> tuple[Chat, str]:
    """Schedule a task and open the panel that edits it."""
    task = live.call("schedule_task", {"title": "Call John", **arguments})["structuredContent"]
    chat = Chat(page, live.serve)
    chat.load("task-card", timeZone="America/Denver")
    chat.show(task)
    edit(chat)
    return chat, task["id"]


def edit(chat: Chat) -> None:
    chat.press("More")
    chat.choice("Edit").click()
    chat.fit()


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


def test_typed_input_survives_a_change_by_somebody_else(chat: Chat) -> None:
    chat.show_task(a_task())
    edit(chat)
    chat.card.get_by_label("Title").fill("Call Jane")
    chat.server.change(priority="high")
    chat.press("Save")

    expect(chat.card.get_by_text("This task had changed")).to_be_visible()
    expect(chat.card.locator("ins")).to_have_text("high")
    expect(chat.card.get_by_label("Title")).to_have_value("Call Jane")
    chat.press("Save")
    expect(chat.card.get_by_role("heading")).to_have_text("Call Jane")


def test_only_what_was_changed_is_sent_and_nothing_when_nothing_was(chat: Chat) -> None:
    chat.show_task(soon(repeat=weekly()))
    edit(chat)
    chat.press("Save")
    expect(chat.card.get_by_label("Title")).to_have_count(0)
    assert chat.calls() == []

    edit(chat)
    chat.card.get_by_label("Priority").select_option("Low")
    chat.press("Save")
    expect(chat.card.get_by_text("Low priority")).to_be_visible()
    assert chat.calls()[-1] == ("reschedule_task", {"task_id": a_task()["id"], "revision": 3, "priority": "low"})
    expect(chat.said()).to_have_text("Changed. Due in 30 minutes.")


def test_the_fields_are_reached_and_left_with_the_keyboard_alone(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.button("More").focus()
    keys = chat.page.keyboard
    keys.press("Enter")
    keys.press("Tab")
    keys.press("Enter")
    order = []
    for _ in range(4):
        order.append(chat.focused())
        keys.press("Tab")
    assert order == ["edit-title", "edit-message", "edit-repeat", "edit-priority"]
    keys.press("Escape")
    expect(chat.card.get_by_label("Title")).to_have_count(0)


def test_a_title_cannot_be_emptied(chat: Chat) -> None:
    chat.show_task(a_task())
    edit(chat)
    chat.card.get_by_label("Title").fill("")
    chat.press("Save")
    assert chat.calls() == []
    expect(chat.card.get_by_label("Title")).to_be_focused()

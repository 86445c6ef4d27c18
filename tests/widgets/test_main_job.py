"""The main job on real input: a real client schedules over stdio, the reminder is delivered, and the card shows it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.widgets.chat import Chat
from tests.widgets.live import LiveServer

pytestmark = pytest.mark.browser


def test_a_reminder_in_six_seconds_is_delivered_and_its_card_shows_it_happen(today: Page, live: LiveServer) -> None:
    chat = Chat(today, live.serve)
    chat.load("task-card", timeZone="America/Denver")
    scheduled = live.call("schedule_task", {"title": "Stretch", "when": "in 6 seconds"})
    chat.show(scheduled["structuredContent"])
    expect(chat.card.get_by_text("Scheduled", exact=True)).to_be_visible()

    expect(chat.card.get_by_text("Reminded", exact=True).first).to_be_visible()

    task = live.call("get_task", {"task_id": scheduled["structuredContent"]["id"]})["structuredContent"]
    assert (task["state"], "summary" in task["last_run"]) == ("succeeded", False)
    assert (task["delivery"]["channel"], task["delivery"]["state"]) == ("inbox", "delivered")
    assert "Unread (" in live.call("list_tasks", {})["content"][0]["text"]

    chat.button("History").click()
    expect(chat.card.get_by_role("list", name="History, newest first")).to_be_visible()
    assert "Unread (" in live.call("list_tasks", {})["content"][0]["text"]  # the model has not been told

    chat.fit()
    chat.button("Done").click()
    expect(chat.button("Done")).to_have_count(0)
    assert "Unread (" not in live.call("list_tasks", {})["content"][0]["text"]
    chat.fit()
    chat.button("Undo").click()
    expect(chat.button("Done")).to_be_visible()
    assert "Unread (" in live.call("list_tasks", {})["content"][0]["text"]
    assert chat.problems == []


def test_the_buttons_of_a_card_change_the_real_task(today: Page, live: LiveServer) -> None:
    scheduled = live.call("schedule_task", {"title": "Call John", "when": "tomorrow 9am"})
    task_id = scheduled["structuredContent"]["id"]
    chat = Chat(today, live.serve)
    chat.load("task-card", timeZone="America/Denver")
    chat.show(scheduled["structuredContent"])

    chat.button("Cancel").click()
    expect(chat.card.get_by_text("Cancelled", exact=True).first).to_be_visible()
    assert live.call("get_task", {"task_id": task_id})["structuredContent"]["state"] == "cancelled"

    chat.button("Undo").click()
    expect(chat.card.get_by_text("Scheduled", exact=True).first).to_be_visible()
    assert live.call("get_task", {"task_id": task_id})["structuredContent"]["state"] == "scheduled"

    live.call("reschedule_task", {"task_id": task_id, "when": "tomorrow 10am"})
    chat.button("Cancel").click()
    expect(chat.card.get_by_text("10:00").first).to_be_visible()
    assert live.call("get_task", {"task_id": task_id})["structuredContent"]["state"] == "scheduled"
    assert chat.problems == []


def test_what_the_buttons_did_is_undone_on_the_real_server(today: Page, live: LiveServer) -> None:
    scheduled = live.call("schedule_task", {"title": "Notes", "repeat": "every day at 17:00"})["structuredContent"]
    chat = Chat(today, live.serve)
    chat.load("task-card", timeZone="America/Denver")
    chat.show(scheduled)

    for name in ("Pause", "Skip next"):
        chat.fit()
        chat.button("More").click()
        chat.fit()
        chat.button(name).click()
        expect(chat.card.locator(".undo")).to_be_visible()
        chat.fit()
        chat.button("Undo").click()
        expect(chat.card.locator(".undo")).to_have_count(0)
        back = live.call("get_task", {"task_id": scheduled["id"]})["structuredContent"]
        assert ("paused" in back, back["when"]["utc"]) == (False, scheduled["when"]["utc"])
    assert chat.problems == []


def test_one_occurrence_moves_or_all_that_follow_as_the_card_says(today: Page, live: LiveServer) -> None:
    scheduled = live.call("schedule_task", {"title": "Notes", "repeat": "every day at 17:00"})["structuredContent"]
    day = scheduled["when"]["local"][:10]
    chat = Chat(today, live.serve)
    chat.load("task-card", timeZone="America/Denver")
    chat.show(scheduled)

    chat.button("Move").click()
    chat.card.get_by_label("New time").fill(f"{day}T17:30")
    expect(chat.card.get_by_text("Then:")).to_contain_text("5:30 PM")
    chat.button("Save").click()
    expect(chat.card.get_by_text("Only the next one was moved")).to_be_visible()
    moved = live.call("get_task", {"task_id": scheduled["id"]})["structuredContent"]["repeat"]
    assert [text[11:16] for text in moved["next"]] == ["17:30", "17:00", "17:00", "17:00", "17:00"]

    chat.fit()
    chat.button("Move").click()
    chat.fit()
    chat.card.get_by_label("New time").fill(f"{day}T18:00")
    chat.card.get_by_role("radio", name="All following").check()
    chat.button("Save").click()
    expect(chat.card.get_by_text("every day at 18:00")).to_be_visible()
    assert chat.problems == []

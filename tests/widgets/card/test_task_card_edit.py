"""A task is edited in place on its card: what was changed is sent, and nothing else."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.widgets.chat import Chat
from tests.widgets.sample import a_task, soon, weekly

pytestmark = pytest.mark.browser


def edit(chat: Chat) -> None:
    chat.press("More")
    chat.choice("Edit").click()
    chat.fit()


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

"""A task card for everybody: keyboard alone, screen readers, 320 px, less motion; and text that means harm."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.widgets.chat import Chat
from tests.widgets.sample import a_task, soon, weekly

pytestmark = pytest.mark.browser

LONG = "Call John about the lease of the house in the Donaudampfschifffahrtselektrizitätenhauptbetriebswerkstraße"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"> <script>alert(1)</script> \u202etxt.exe"


def test_at_320_pixels_nothing_is_cut_off_and_nothing_scrolls_sideways(chat: Chat) -> None:
    chat.show_task(
        soon(title=LONG, repeat=weekly(), labels=["x" * 64], warnings=["t_" + "0" * 100]),
        width=320,
        timeZone="Asia/Kathmandu",
    )
    for opener in ("Snooze", "Move", "More", "History"):
        chat.press(opener)
        assert not chat.too_wide, opener
    for button in chat.card.get_by_role("button").all():
        box = button.bounding_box()
        assert box is not None
        assert box["height"] >= 36


def test_everything_can_be_done_with_the_keyboard_alone(chat: Chat) -> None:
    chat.show_task(soon())
    keys = chat.page.keyboard
    chat.button("Snooze").focus()
    order = []
    for _ in range(4):
        order.append(chat.focused())
        keys.press("Tab")
    assert order == ["snooze", "change", "cancel", "more"]

    chat.button("Move").focus()
    keys.press("Enter")
    assert chat.focused() == "when"
    keys.press("Escape")
    expect(chat.card.get_by_label("New time")).to_have_count(0)
    assert chat.focused() == "change"

    chat.button("Snooze").focus()
    keys.press("Space")
    expect(chat.choice("10 min")).to_be_visible()
    assert chat.focused() == "snooze"
    chat.choice("10 min").focus()
    keys.press("Enter")
    expect(chat.card.locator(".relative")).to_have_text("in 10 minutes")
    assert chat.focused() == "snooze"


def test_after_a_cancellation_the_focus_is_on_undo_and_afterwards_on_a_button_again(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.button("Cancel").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.button("Undo")).to_be_focused()
    chat.page.keyboard.press("Enter")
    expect(chat.button("Cancel")).to_be_focused()


def test_a_time_is_typed_key_by_key(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("Move")
    chat.card.get_by_label("New time").focus()
    chat.page.keyboard.type("11252026")
    expect(chat.card.get_by_label("New time")).to_have_value("2026-11-25T09:00")


def test_enter_in_the_time_field_saves(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("Move")
    chat.card.get_by_label("New time").fill("2026-11-25T10:30")
    chat.page.keyboard.press("Enter")
    expect(chat.card.locator("time").first).to_contain_text("10:30 AM")
    assert chat.focused() == "change"


def test_the_focus_stays_while_an_action_is_pending_and_nothing_else_can_be_pressed(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.send("hold")
    chat.button("Cancel").focus()
    chat.page.keyboard.press("Enter")
    expect(chat.button("Cancel")).to_be_focused()
    chat.page.keyboard.press("Enter")
    chat.send("release")
    expect(chat.button("Undo")).to_be_focused()
    assert [name for name, _ in chat.calls()] == ["cancel_task"]


def test_a_screen_reader_announces_what_happened(chat: Chat) -> None:
    chat.show_task(soon())
    expect(chat.said()).to_have_attribute("aria-live", "polite")
    chat.press("Snooze")
    chat.choice("1 h").click()
    expect(chat.said()).to_have_text("Snoozed. Due in 1 hour.")


def test_a_screen_reader_gets_a_name_for_everything(chat: Chat) -> None:
    chat.show_task(a_task(repeat=weekly()))
    chat.press("More")
    expect(chat.card.locator("body")).to_match_aria_snapshot("""
      - main:
        - article "Call John about the lease":
          - text: Scheduled in 3 days
          - heading "Call John about the lease" [level=1]
          - paragraph:
            - time:
              - strong: 9:00 AM
              - text: Tuesday, November 24
          - term: Repeats
          - definition:
            - group: every Tuesday at 09:00 next 5
          - term: Created by
          - definition: Created by maria
          - group "Actions":
            - button "Move"
            - button "Cancel"
            - button "More" [expanded]
          - region "More":
            - group "More actions":
              - button "Edit"
              - button "Pause"
              - button "Skip next"
              - button "Run now"
              - button "History"
      - status
    """)


def test_a_user_who_wants_less_motion_gets_none(chat: Chat) -> None:
    chat.page.emulate_media(reduced_motion="reduce")
    chat.show_task(a_task())
    chat.send("hold")
    chat.press("Cancel")
    expect(chat.card.locator(".spinner")).to_have_css("animation-name", "none")
    expect(chat.button("Cancel")).to_have_css("transition-property", "none")


def test_text_of_users_is_shown_as_text_whatever_it_says(chat: Chat) -> None:
    chat.show_task(a_task(title=HOSTILE, message=HOSTILE, owner=HOSTILE, labels=[HOSTILE], warnings=[HOSTILE]))
    chat.server.change(title=f"{HOSTILE} again")
    chat.press("Cancel")

    expect(chat.card.get_by_role("heading")).to_have_text(f"{HOSTILE} again")
    expect(chat.card.locator("del")).to_have_text(HOSTILE)
    expect(chat.card.locator("img, script:not(body > script)")).to_have_count(0)
    assert chat.card.evaluate("document.title") == "Task"
    for name in ("del", "bdi", ".label"):
        expect(chat.card.locator(name).first).to_have_css("unicode-bidi", "isolate")


def test_the_page_may_fetch_nothing(chat: Chat) -> None:
    chat.show_task(a_task())
    with chat.page.expect_console_message(lambda said: "Content Security Policy" in said.text):
        refused = chat.card.evaluate("fetch('https://example.com/').then(() => '', (why) => why.name)")
    assert refused == "TypeError"
    chat.problems.clear()

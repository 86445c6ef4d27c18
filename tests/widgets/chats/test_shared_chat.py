"""The chat that the tests of a file share: each of them finds it as the first one did."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.chat import SIZE, Chat
from tests.widgets.sample import NOW, soon

pytestmark = pytest.mark.browser

SEEN = "() => ({...host.seen, denies: host.denies, look: document.getElementById('chat').outerHTML})"


def look_of(chat: Chat) -> tuple[dict[str, Any], Any, list[str], int, dict[str, Any]]:
    now = chat.page.evaluate("() => [Date.now(), matchMedia('print').matches]")
    return chat.page.evaluate(SEEN), now, [*chat.problems], len(chat.page.frames), {**chat.server.tasks}


def test_a_chat_that_was_used_is_an_empty_one_again(chat: Chat) -> None:
    fresh = look_of(chat)
    assert (fresh[1], chat.page.viewport_size) == ([NOW.timestamp() * 1000, False], SIZE)
    chat.page.set_viewport_size({"width": 320, "height": 500})
    chat.page.emulate_media(media="print")
    chat.show_task(soon())
    chat.send("deny")
    chat.page.locator("#chat").evaluate("stage => (stage.className = 'stage dark')")
    chat.page.emulate_media(media="screen")
    chat.press("Move")
    chat.pass_time(70)
    chat.page.emulate_media(media="print")
    chat.problems.append("an error of the card")
    assert look_of(chat) != fresh

    chat.clear()
    assert look_of(chat) == fresh
    assert chat.page.viewport_size == SIZE


def test_an_answer_that_was_held_back_and_a_server_that_was_away_do_not_reach_the_next_card(chat: Chat) -> None:
    chat.show_task(soon())
    chat.send("hold")
    chat.button("Cancel").click()
    chat.send("break", "fetch failed")

    chat.clear()
    chat.show_task(soon())
    assert chat.server.tasks[soon()["id"]]["state"] == "scheduled", "the call of the card before is not made any more"
    chat.press("Cancel")
    assert [name for name, _ in chat.calls()] == ["cancel_task"]
    assert chat.server.tasks[soon()["id"]]["state"] == "cancelled"


def test_the_pointer_does_not_stay_where_the_test_before_left_it(chat: Chat) -> None:
    chat.show_task(soon())
    chat.fit()
    chat.button("Cancel").hover()
    expect(chat.card.locator(".button:hover")).to_have_count(1)

    chat.clear()
    chat.show_task(soon())
    chat.fit()
    assert chat.card.locator(".button:hover").count() == 0

"""The list card and many tasks at once: what one call did has one undo, and chosen tasks are changed after a count."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.agenda import ROWS, a_page, a_row
from tests.widgets.card.test_contrast import violations
from tests.widgets.card.test_faults import POSTING
from tests.widgets.chat import Chat
from tests.widgets.list.test_task_list import row, show_list
from tests.widgets.sample import BULK_UNDO, BULK_UNDO_FOR, NOW, stamp
from tests.widgets.sources.test_languages import READERS, words

pytestmark = pytest.mark.browser

OPEN = [one["id"] for one in ROWS if one["state"] != "succeeded"]


def bulk(change: str = "cancel", **parts: Any) -> dict[str, Any]:
    undo = {"undo": BULK_UNDO, "undo_until": stamp(NOW + BULK_UNDO_FOR)}
    return {"bulk": {"change": change, "changed": 12, **undo, **parts}}


def choose(chat: Chat) -> list[str]:
    """Choose two tasks; return their ids."""
    show_list(chat, a_page())
    chat.press("Select")
    for title in ("Call John", "Take the bread"):
        chat.click(row(chat, title))
    expect(chat.card.get_by_role("checkbox", checked=True)).to_have_count(2)
    return [one["id"] for title in ("Call John", "Take the bread") for one in ROWS if one["title"].startswith(title)]


def sent(chat: Chat) -> list[dict[str, Any]]:
    return [args for name, args in chat.calls() if name == "change_tasks"]


def test_the_changes_of_one_call_are_taken_back_by_one_button_as_long_as_the_server_would(chat: Chat) -> None:
    show_list(chat, a_page() | bulk())
    expect(chat.card.locator(".undo")).to_contain_text("Cancelled: 12.")
    expect(chat.button("Select")).to_have_count(0)
    chat.pass_time(70)
    assert chat.calls() == [], "such a list cannot be asked for again"
    chat.server.pages = [a_page()]
    chat.press("Undo")
    assert sent(chat) == [{"change": "undo", "undo": BULK_UNDO}]
    expect(chat.card.locator(".undo, .empty").first).to_be_visible()
    expect(chat.button("Undo")).to_have_count(0)

    chat.load("task-list")
    chat.show(a_page() | bulk(undo_until=stamp(NOW)))
    expect(chat.card.locator(".undo")).to_contain_text("Cancelled: 12.")
    expect(chat.button("Undo")).to_have_count(0)


def test_chosen_tasks_are_counted_then_changed_and_taken_back_as_one(chat: Chat) -> None:
    ids = choose(chat)
    chat.press("Pause")
    expect(chat.card.locator(".bar [role=status]")).to_have_text("Pause: 2 / 2")
    assert sent(chat)[-1] == {"change": "pause", "task_ids": ids, "dry_run": True}
    chat.press("Pause")
    assert sent(chat)[-1] == {"change": "pause", "task_ids": ids}
    expect(chat.card.locator(".undo")).to_contain_text("Paused: 2.")
    expect(chat.said()).to_have_text("Paused: 2")
    [told] = chat.told_model()
    assert told.startswith("On the list of tasks: Paused 2: t_")
    assert all(f"{task_id} «" in told for task_id in ids)
    chat.press("Undo")
    assert sent(chat)[-1] == {"change": "undo", "undo": BULK_UNDO}
    assert ("list_tasks", {}) in chat.calls(), "the list is read again"


def test_a_count_that_met_an_away_server_can_be_asked_for_again(chat: Chat) -> None:
    choose(chat)
    chat.send("break", POSTING)
    chat.press("Pause")
    expect(chat.card.get_by_role("alert")).to_have_count(1)
    chat.send("break", "")
    chat.press("Pause")
    expect(chat.card.locator(".bar [role=status]")).to_have_text("Pause: 2 / 2")


def test_chosen_tasks_are_moved_to_a_day_and_another_choice_is_counted_again(chat: Chat) -> None:
    ids = choose(chat)
    chat.press("Move")
    chat.card.get_by_label("Move").fill("2026-11-25")
    expect(chat.card.locator(".bar [role=status]")).to_have_text("Move: 2 / 2")
    chat.click(row(chat, "Call John"))
    expect(chat.button("Cancel")).to_be_visible()
    chat.press("Move")
    chat.card.get_by_label("Move").fill("2026-11-25")
    chat.press("Move")
    assert sent(chat)[-1] == {"change": "move", "task_ids": ids[1:], "to": "2026-11-25"}


def test_chosen_tasks_are_paused_until_a_time_of_the_readers_clock_or_without_one(chat: Chat) -> None:
    ids = choose(chat)
    chat.press("Pause")
    until = chat.card.get_by_label("Paused until")
    until.fill("2026-11-25T09:00")
    until.blur()
    expect(chat.card.locator(".bar [role=status]")).to_have_text("Pause: 2 / 2")
    args = {"change": "pause", "task_ids": ids, "to": "2026-11-25T16:00:00Z"}
    assert sent(chat)[-1] == {**args, "dry_run": True}
    chat.press("Pause")
    assert sent(chat)[-1] == args
    expect(chat.card.locator(".undo")).to_contain_text("Paused: 2.")


FAILED_ROW = a_row("t_00000000000f", "Push to the CRM", -95, state="failed", last_run={"state": "failed"})


@pytest.mark.parametrize(("language", "verb", "button", "did"), [
    ("en", "replay", "run_again", "run_now"), ("en", "discard", "discard", "discard"),
    ("ja", "replay", "run_again", "run_now"), ("ar", "discard", "discard", "discard"),
])  # fmt: skip
def test_failed_tasks_are_run_again_or_discarded_and_that_is_taken_back(
    chat: Chat, language: str, verb: str, button: str, did: str
) -> None:
    show_list(chat, a_page([*ROWS, FAILED_ROW]), locale=READERS[language])
    chat.press(words(language, "button.select"))
    chat.click(row(chat, "Push to the CRM"))
    args = {"change": verb, "task_ids": [FAILED_ROW["id"]], **({"reason": "on its card"} if verb == "discard" else {})}
    chat.press(words(language, f"button.{button}"))
    assert sent(chat)[-1] == {**args, "dry_run": True}
    chat.press(words(language, f"button.{button}"))
    assert sent(chat)[-1] == args
    expect(chat.card.locator(".undo")).to_contain_text(words(language, f"did.{did}"))
    chat.press(words(language, "button.undo"))
    assert sent(chat)[-1] == {"change": "undo", "undo": BULK_UNDO}


def test_nothing_is_asked_for_without_a_choice_and_what_has_ended_cannot_be_chosen(chat: Chat) -> None:
    show_list(chat, a_page())
    chat.press("Select")
    expect(chat.button("Discard")).to_have_count(0)
    expect(chat.card.get_by_role("checkbox")).to_have_count(len(OPEN))
    chat.press("Cancel")
    assert sent(chat) == []
    chat.press("Keep")
    expect(chat.card.get_by_role("checkbox")).to_have_count(0)


@pytest.mark.parametrize(("theme", "width"), [("light", None), ("dark", 320)])
def test_it_reads_well_and_is_clean(chat: Chat, theme: str, width: int | None) -> None:
    show_list(chat, a_page(), theme=theme, width=width)
    chat.press("Select")
    chat.click(row(chat, "Call John"))
    assert violations(chat) == []
    assert chat.card.evaluate("document.documentElement.scrollWidth <= innerWidth")
    chat.picture(f"task-list-chosen-{theme}")


def test_the_card_says_how_many_cancelled_tasks_no_undo_brings_back(chat: Chat) -> None:
    show_list(chat, a_page() | bulk(final=2))
    expect(chat.card.locator(".undo")).to_contain_text("Cancelled: 2 / 12. This cannot be undone.")
    chat.load("task-list")
    chat.show(a_page() | bulk())
    expect(chat.card.locator(".undo")).not_to_contain_text("cannot be undone")

"""Answers that come late or out of order: what a person asked for is never dropped, and what is newer stays."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.widgets.agenda import ROWS, a_page, a_row, call_john
from tests.widgets.chat import Chat
from tests.widgets.sample import CALL_JOHN, a_task, refusal, result, weekly

pytestmark = pytest.mark.browser

LEFT = [one for one in ROWS if one["id"] != CALL_JOHN]


def begin_reading(chat: Chat, tool: str | None = None) -> None:
    """Have the card ask the server, which does not answer before `release`; with `tool` it answers other calls."""
    chat.send("hold", tool)
    chat.wake()
    chat.settle()


def show_list(chat: Chat) -> None:
    chat.server.pages = [a_page(ROWS[:4], cursor="c1"), a_page(ROWS[4:])]
    chat.server.tasks[CALL_JOHN] = call_john()
    chat.load("task-list")
    chat.show(chat.server.pages[0])


def open_john(chat: Chat) -> None:
    chat.click(chat.card.locator(".row", has_text="Call John"))
    chat.fit()


def test_history_that_is_opened_while_the_task_is_read_comes(chat: Chat) -> None:
    chat.show_task(a_task())
    begin_reading(chat)
    chat.press("More")
    chat.choice("History").click()
    chat.send("release")
    expect(chat.card.get_by_text("Reading")).to_have_count(0)
    expect(chat.card.get_by_text("Nothing has happened yet")).to_be_visible()


def test_a_stale_card_says_what_changed_though_it_is_just_being_read(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.server.change(title="Other")
    chat.send("hold")
    chat.press("Cancel")
    chat.wake()
    chat.send("release")
    expect(chat.card.get_by_text("This task had changed")).to_be_visible()


def test_more_rows_that_are_asked_for_while_the_list_is_read_come(chat: Chat) -> None:
    show_list(chat)
    begin_reading(chat)
    chat.press("Show more")
    chat.send("release")
    expect(chat.card.locator(".row")).to_have_count(len(ROWS))


def test_two_presses_while_more_rows_come_are_one_wish(chat: Chat) -> None:
    show_list(chat)
    chat.send("hold")
    chat.press("Show more")
    chat.press("Show more")
    chat.send("release")
    expect(chat.card.locator(".row")).to_have_count(len(ROWS))
    assert chat.calls() == [("list_tasks", {"cursor": "c1"})]


def test_after_an_action_a_list_is_read_again_though_it_is_just_being_read(chat: Chat) -> None:
    show_list(chat)
    open_john(chat)
    begin_reading(chat)
    chat.press("Cancel")
    chat.send("release")
    expect(chat.button("Undo")).to_be_visible()
    assert [name for name, _ in chat.calls()] == ["get_task", "list_tasks", "cancel_task", "list_tasks"]


def test_a_change_stays_when_an_older_list_arrives(chat: Chat, monkeypatch: pytest.MonkeyPatch) -> None:
    show_list(chat)
    open_john(chat)
    answers = iter([result(a_page()), refusal("The store is not available.")])
    monkeypatch.setattr(chat.server, "_list", lambda _: next(answers))
    begin_reading(chat, "list_tasks")
    chat.press("Cancel")
    chat.send("release")
    expect(chat.card.get_by_role("alert")).to_have_text("The store is not available.")
    expect(chat.card.locator(".row", has_text="Call John").locator(".word")).to_have_text("Cancelled")


def test_a_row_that_moved_to_the_next_page_is_there_once(chat: Chat) -> None:
    show_list(chat)
    open_john(chat)
    chat.server.pages = [a_page(LEFT[:4], cursor="c1"), a_page([*LEFT[4:], ROWS[3]])]
    chat.press("Cancel")
    chat.press("Show more")
    expect(chat.card.locator(".row")).to_have_count(len(ROWS))


def test_an_open_row_that_leaves_the_filter_keeps_what_is_typed_into_it(chat: Chat) -> None:
    show_list(chat)
    open_john(chat)
    chat.press("Move")
    chat.card.get_by_label("New time").fill("2026-11-25T10:30")
    chat.server.pages = [a_page(LEFT)]
    chat.pass_time(62)
    expect(chat.card.get_by_label("New time")).to_have_value("2026-11-25T10:30")


def test_an_older_answer_does_not_take_back_what_was_done(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("Cancel")
    chat.show(a_task())
    expect(chat.state()).to_have_text("Cancelled")
    expect(chat.button("Undo")).to_be_visible()


def test_a_late_answer_leaves_the_panel_that_was_opened_since(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("More")
    chat.send("hold")
    chat.choice("Pause").click()
    chat.pass_time(21)
    chat.choice("Edit").click()
    chat.fit()
    chat.card.get_by_label("Title").fill("Call Jane")
    chat.send("release")
    expect(chat.state()).to_have_text("Paused")
    expect(chat.card.get_by_label("Title")).to_have_value("Call Jane")


def test_a_time_that_was_typed_survives_a_change_by_somebody_else(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("Move")
    chat.card.get_by_label("New time").fill("2026-11-25T10:30")
    chat.server.change(title="Call Jane")
    chat.press("Save")
    expect(chat.card.get_by_text("This task had changed")).to_be_visible()
    expect(chat.card.get_by_label("New time")).to_have_value("2026-11-25T10:30")
    chat.press("Save")
    expect(chat.card.locator("time").first).to_contain_text("10:30 AM")
    assert chat.calls()[-1][1]["when"] == "2026-11-25T10:30"


@pytest.mark.parametrize("key", ["Escape", "Keep"])
def test_a_panel_that_was_closed_asks_nothing_any_more(chat: Chat, key: str) -> None:
    chat.show_task(a_task(repeat=weekly()))
    chat.press("Move")
    chat.card.get_by_label("New time").fill("2026-11-24T10:30")
    if key == "Escape":
        chat.page.keyboard.press(key)
    else:
        chat.press(key)
    chat.press("Move")
    chat.pass_time(1)
    expect(chat.card.get_by_text("Then:")).to_have_count(0)
    assert chat.calls() == []


def test_counts_say_that_it_was_the_last_run_that_failed(chat: Chat) -> None:
    chat.load("task-list")
    chat.show(a_page([a_row(CALL_JOHN, "Call John", 20)], counts={"scheduled": 1, "failed": 1, "expired": 2}))
    expect(chat.card.get_by_role("list", name="Counts by state").get_by_role("listitem")).to_have_text(
        ["1 scheduled", "1 last run failed", "2 last run expired"]
    )

"""Faults on the way to the server: in plain words, with Try again, and gone when it is back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.agenda import ROWS, a_page, a_row
from tests.widgets.card.test_chain_card import a_chain
from tests.widgets.card.test_task_card_outcomes import UNREAD
from tests.widgets.chat import Chat
from tests.widgets.sample import CALL_JOHN, NOW, a_task, held_back, refusal, soon, stamp

pytestmark = pytest.mark.browser

POSTING = 'Error POSTing to endpoint (HTTP 502): {"jsonrpc":"2.0","error":{"code":-32000}}'
AWAY = "Duetime cannot be reached."
UNDONE = "That has not been done."


def test_a_server_that_is_away_is_told_in_plain_words_and_tried_again(chat: Chat) -> None:
    chat.show_task(soon())
    chat.send("break", POSTING)
    chat.press("Cancel")

    alert = chat.card.get_by_role("alert")
    expect(alert.locator("p")).to_have_text(AWAY)
    expect(chat.state()).to_have_text("Scheduled")
    chat.send("break", "")
    chat.press("Try again")
    expect(chat.state()).to_have_text("Cancelled")
    expect(alert).to_have_count(0)


@pytest.mark.parametrize("task", [soon(), a_chain(state="scheduled")])
def test_an_action_that_met_an_away_server_is_still_to_be_made_when_it_is_back(
    chat: Chat, task: dict[str, Any]
) -> None:
    chat.show_task(task)
    chat.send("break", POSTING)
    chat.press("Cancel")
    alert = chat.card.get_by_role("alert")
    chat.pass_time(12)  # a reading meets the fault too
    expect(alert.locator("p")).to_have_text(AWAY)

    chat.send("break", "")
    chat.pass_time(12)
    expect(alert.locator("p")).to_have_text(UNDONE)
    chat.press("Try again")
    expect(chat.state()).to_have_text("Cancelled")
    expect(alert).to_have_count(0)


@pytest.mark.parametrize(("button", "parts"), [
    ("Cancel", {"revision": 4, "state": "cancelled"}), ("Done", {"unread": None}),
])  # fmt: skip
def test_an_action_that_was_made_though_the_server_seemed_away_is_not_asked_for_again(
    chat: Chat, button: str, parts: dict[str, Any]
) -> None:
    chat.show_task(soon(unread=UNREAD))
    chat.send("break", POSTING)
    chat.press(button)
    expect(chat.card.get_by_role("alert")).to_have_count(1)

    task = {**chat.server.tasks[CALL_JOHN], **parts}
    chat.server.tasks[CALL_JOHN] = {name: part for name, part in task.items() if part is not None}
    chat.send("break", "")
    chat.pass_time(12)
    expect(chat.card.get_by_role("alert")).to_have_count(0)


def test_a_fault_goes_by_itself_when_the_server_is_back(chat: Chat) -> None:
    chat.show_task(held_back())
    chat.send("break", POSTING)
    chat.pass_time(20)
    alert = chat.card.get_by_role("alert")
    expect(alert.locator("p")).to_have_text(AWAY)

    chat.send("break", "")
    chat.pass_time(12)
    expect(alert).to_have_count(0)


def test_the_text_of_a_host_for_a_fault_is_not_shown_either(chat: Chat) -> None:
    chat.load("task-card")
    chat.send("input", {"task_id": CALL_JOHN})
    chat.send("result", {"content": [{"type": "text", "text": POSTING}], "isError": True})
    expect(chat.card.get_by_role("alert")).to_have_text(AWAY)

    chat.server.tasks[CALL_JOHN] = a_task()
    chat.press("Try again")
    expect(chat.state()).to_have_text("Scheduled")


def test_a_late_answer_is_taken(chat: Chat) -> None:
    chat.show_task(soon())
    chat.send("hold")
    chat.press("Cancel")
    chat.pass_time(21)
    alert = chat.card.get_by_role("alert")
    expect(alert).to_contain_text("No answer came")

    chat.send("release")
    expect(chat.state()).to_have_text("Cancelled")
    expect(alert).to_have_count(0)
    expect(chat.button("Undo")).to_be_visible()


def test_a_server_that_was_restarted_is_a_new_session_and_no_error(chat: Chat) -> None:
    chat.show_task(soon())
    chat.page.evaluate("""() => {
      const serve = window.serve;
      window.serve = (...call) => {
        window.serve = serve;
        throw new Error('Error POSTing to endpoint (HTTP 404): {"error":{"message":"Session not found"}}');
      };
    }""")
    chat.press("Cancel")

    expect(chat.state()).to_have_text("Cancelled")
    expect(chat.card.get_by_role("alert")).to_have_count(0)
    assert [name for name, _ in chat.calls()] == ["cancel_task", "cancel_task"]


def test_a_refusal_is_shown_in_the_words_for_people(chat: Chat) -> None:
    chat.load("task-card")
    sentence = "task_id: t_7k3m9qx2w4hb is paused. Resume it with reschedule_task(pause=false)."
    chat.send("result", refusal(sentence, plain="This task is paused. Resume it."))
    expect(chat.card.get_by_role("alert")).to_have_text("This task is paused. Resume it.")


def test_a_list_that_cannot_be_read_again_says_so_until_it_can(chat: Chat) -> None:
    chat.server.pages = [a_page()]
    chat.load("task-list")
    chat.show(a_page())
    chat.send("break", POSTING)
    chat.pass_time(65)
    alert = chat.card.get_by_role("alert")
    expect(alert.locator("p")).to_have_text(AWAY)
    expect(chat.card.locator(".row")).to_have_count(len(ROWS))

    chat.send("break", "")
    chat.pass_time(12)
    expect(alert).to_have_count(0)


# --- live -------------------------------------------------------------------------------------------------------------


def test_two_cards_of_one_task_agree_after_a_while(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.server.change(title="Call Jane", paused=True)
    chat.pass_time(62)
    expect(chat.state()).to_have_text("Paused")
    expect(chat.card.get_by_role("heading")).to_have_text("Call Jane")


def test_a_task_that_ended_long_ago_is_not_read_again_and_again(chat: Chat) -> None:
    ended = {"state": "succeeded", "ended": stamp(NOW - timedelta(hours=2))}
    chat.show_task(a_task(due=NOW - timedelta(hours=2), state="succeeded", last_run=ended))
    chat.pass_time(130)
    assert chat.calls() == []


def test_an_outcome_in_a_list_is_announced(chat: Chat) -> None:
    row = a_row(CALL_JOHN, "Call John about the lease", 0)
    chat.load("task-list")
    chat.show(a_page([row]))
    chat.server.pages = [a_page([{**row, "state": "succeeded", "reminder": True}])]
    chat.pass_time(12)
    expect(chat.card.locator(".word")).to_have_text("Reminded")
    expect(chat.said()).to_have_text("Call John about the lease: Reminded")


def test_a_host_that_calls_no_tools_gets_no_rows_that_open_into_errors(chat: Chat) -> None:
    chat.load("task-list", capabilities={})
    chat.show(a_page(cursor="c1", now="2026-11-21T20:00:00Z"))
    chat.pass_time(130)

    expect(chat.card.locator(".row")).to_have_count(len(ROWS))
    expect(chat.card.get_by_role("button")).to_have_count(0)
    expect(chat.card.get_by_text("This chat cannot open tasks for you")).to_be_visible()
    assert chat.calls() == []


def test_a_card_in_such_a_host_reads_nothing(chat: Chat) -> None:
    task = held_back()
    chat.show_task({**task, "now": "2026-11-21T20:00:00Z"}, capabilities={})
    chat.pass_time(130)
    assert chat.calls() == []
    expect(chat.card.get_by_role("alert")).to_have_count(0)

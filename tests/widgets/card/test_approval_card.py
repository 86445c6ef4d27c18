"""The card of a task that waits for approval: the question, until when it is asked, and the two answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.card.test_chain_card import CHAIN, a_chain
from tests.widgets.chat import Chat
from tests.widgets.sample import CALL_JOHN, NOW, a_task, stamp, weekly

pytestmark = pytest.mark.browser

QUESTION = "Pay the invoice of Acme over 90 EUR?"
SENTENCE = f"approval of «{QUESTION}» by the user until Tue 24 Nov 2026 14:00 (in 2 h), else it is cancelled"


def asking(**parts: Any) -> dict[str, Any]:
    waits = [{"kind": "approval", "until": stamp(NOW + timedelta(hours=2)), "title": QUESTION, "goes_on": False}]
    given = {"title": "Pay the invoice", "action": "webhook", "state": "waiting", "waiting_for": [SENTENCE]}
    return a_task(**{**given, "waits": waits, **parts})


def test_the_card_shows_the_question_and_until_when_it_is_asked(chat: Chat) -> None:
    chat.show_task(asking())
    facts = chat.card.locator(".facts")
    expect(facts).to_contain_text("Waits for your approval")
    expect(facts).to_contain_text(f"{QUESTION}Ends in 2 hours")


@pytest.mark.parametrize(
    ("goes_on", "said"), [(True, "Ends in 2 hours, then goes ahead"), (False, "Ends in 2 hours, then does not run")]
)
@pytest.mark.parametrize("wait", [{"kind": "approval", "title": QUESTION}, {"kind": "event", "event": "order.paid"}])
def test_the_card_says_what_follows_without_an_answer_or_event(
    chat: Chat, wait: dict[str, Any], goes_on: bool, said: str
) -> None:
    chat.show_task(asking(waits=[{**wait, "until": stamp(NOW + timedelta(hours=2)), "goes_on": goes_on}]))
    expect(chat.card.locator(".facts")).to_contain_text(said)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("reject", "Ends in 2 hours, then counts as rejected and goes on"),
        ("approve", "Ends in 2 hours, then counts as approved and goes on"),
    ],
)
def test_a_question_of_a_handler_says_with_which_answer_it_goes_on(chat: Chat, answer: str, said: str) -> None:
    wait = {"kind": "approval", "title": QUESTION, "until": stamp(NOW + timedelta(hours=2))}
    chat.show_task(asking(state="suspended", waits=[{**wait, "goes_on": True, "default_answer": answer}]))
    expect(chat.card.locator(".facts")).to_contain_text(said)


def test_a_refused_answer_shows_the_task_as_it_is_by_now(chat: Chat) -> None:
    chat.show_task(asking())
    chat.server.tasks[CALL_JOHN] = {**asking(state="scheduled", waits=[], waiting_for=[])}
    chat.server.refuse = "This task stays as it is: ann approved it already."
    chat.press("Reject")
    expect(chat.state()).to_have_text("Scheduled")
    expect(chat.button("Approve")).to_have_count(0)
    expect(chat.card.get_by_role("alert")).to_have_text("This task stays as it is: ann approved it already.")


@pytest.mark.parametrize(("button", "action"), [("Approve", "approve"), ("Reject", "reject")])
def test_one_press_answers(chat: Chat, button: str, action: str) -> None:
    chat.show_task(asking())
    assert chat.card.get_by_role("group").get_by_role("button").all_inner_texts() == [
        *("Approve", "Reject", "Move", "More"),
    ]
    chat.press(button)
    assert chat.calls()[-1] == ("act_on_task", {"task_id": CALL_JOHN, "revision": 3, "action": action})


def test_a_chain_is_answered_on_its_card_where_it_asks_one_question(chat: Chat) -> None:
    asked = {"kind": "approval", "title": QUESTION}
    for waits, buttons in (
        ([asked, asked], ["Run again: clean", "Approve", "Reject", "Move", "Cancel", "Pause"]),
        ([asked, {**asked, "title": "Another?"}], ["Run again: clean", "Move", "Cancel", "Pause"]),
    ):
        chat.show_task(a_chain(state="waiting", waits=waits, waiting_for=[SENTENCE, SENTENCE]))
        assert chat.card.get_by_role("group").get_by_role("button").all_inner_texts() == buttons
    chat.show_task(a_chain(state="waiting", waits=[asked], waiting_for=[SENTENCE]))
    chat.press("Approve")
    assert chat.calls()[-1] == ("act_on_task", {"task_id": CHAIN, "revision": 1, "action": "approve"})


def test_a_series_says_that_it_asks_before_each_run(chat: Chat) -> None:
    for approval, said in (
        ({"question": QUESTION}, f"Asks you before each run: {QUESTION}"),
        ({}, "Asks you before each run"),
    ):
        chat.show_task(a_task(repeat={**weekly(), "approval": approval}))
        expect(chat.card.locator(".facts")).to_contain_text(said)
    chat.show_task(a_task(repeat=weekly()))
    expect(chat.card.locator(".facts")).not_to_contain_text("Asks you")


def test_a_series_says_for_which_event_each_run_waits(chat: Chat) -> None:
    for wait, said in (
        ({"event": "report.ready", "timeout": "2 h", "on_timeout": "skip"}, "Waits for the event report.ready"),
        ({"any": [{"event": "paid"}, {"event": "waived"}]}, "Waits for the event paid or waived"),
        ({"event": "paid", "match": {"order.id": 7, "by": "Ann"}}, 'the event paid (order.id = 7, by = "Ann")'),
    ):
        chat.show_task(a_task(repeat={**weekly(), "wait_for": wait}))
        expect(chat.card.locator(".facts")).to_contain_text(said)


def test_several_events_of_which_one_is_enough_are_named_so(chat: Chat) -> None:
    until = stamp(NOW + timedelta(days=2))
    waits = [{"kind": "event", "event": "paid, waived", "until": until}]
    chat.show_task(asking(waits=waits, waiting_for=["the event paid or waived"]))
    expect(chat.card.locator(".facts")).to_contain_text("Waits for the event paid or waivedEnds in 2 days")


def test_a_wait_for_an_event_says_what_its_data_have_to_be(chat: Chat) -> None:
    until = stamp(NOW + timedelta(days=2))
    waits = [{"kind": "event", "event": "order.paid", "match": "order.id = 7", "until": until, "goes_on": False}]
    chat.show_task(asking(waits=waits, waiting_for=["the event order.paid"]))
    expect(chat.card.locator(".facts")).to_contain_text("the event order.paidorder.id = 7Ends in 2 days")


@pytest.mark.parametrize(
    ("locale", "watch", "webhook"),
    [
        ("en-US", "Looks at shop.example every 5 min", "Sends a request to shop.example"),
        ("de-DE", "Sieht alle 5 min bei shop.example nach", "Sendet eine Anfrage an shop.example"),
    ],
)
def test_a_watch_and_a_webhook_name_their_host_alone(chat: Chat, locale: str, watch: str, webhook: str) -> None:
    address = "https://shop.example/order/7/a-token"
    for target, said in (
        ({"address": address, "every": "5 min", "ends": "after 7 d"}, watch),
        ({"address": address}, webhook),
        ({"address": "parcel", "every": "5 min"}, watch.replace("shop.example", "parcel")),
    ):
        chat.show_task(a_task(action="watch", target=target), locale=locale)
        expect(chat.card.locator(".facts")).to_contain_text(said)
        expect(chat.card.locator(".facts")).not_to_contain_text("a-token")


def test_nothing_is_answered_that_is_not_asked(chat: Chat) -> None:
    chat.show_task(a_task(state="waiting"))
    expect(chat.button("Approve")).to_have_count(0)


@pytest.mark.parametrize(("theme", "width"), [("light", 520), ("dark", 320)])
def test_nothing_of_it_is_wider_than_its_frame(chat: Chat, theme: str, width: int) -> None:
    chat.page.set_viewport_size({"width": width + 42, "height": 900})
    chat.page.locator("#chat").evaluate("(stage, theme) => (stage.className = `stage ${theme}`)", theme)
    chat.show_task(asking(), theme=theme)
    expect(chat.button("Approve")).to_be_visible()
    wider = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert chat.card.evaluate(wider) is False


def test_a_series_that_asks_offers_no_run_around_its_question(chat: Chat) -> None:
    chat.show_task(a_task(repeat={**weekly(), "approval": {"default": "reject"}}))
    chat.press("More")
    expect(chat.button("Skip next")).to_be_visible()
    expect(chat.button("Run now")).to_have_count(0)
    chat.show_task(asking())
    chat.press("More")
    expect(chat.button("Run now")).to_have_count(0)


def test_a_yes_is_taken_back_until_the_run_starts_without_a_countdown(chat: Chat) -> None:
    chat.show_task(asking())
    chat.press("Approve")
    expect(chat.card.locator(".undo")).to_contain_text("Approved.")
    expect(chat.card.locator("[data-undo]")).to_have_count(0)
    chat.pass_time(40)
    expect(chat.button("Undo")).to_be_visible()
    chat.server.change(state="running")
    chat.pass_time(61)
    expect(chat.state()).to_have_text("Running")
    expect(chat.button("Undo")).to_have_count(0)

"""The task card as it comes up: greeting the host, every state, time zones, themes, old answers, and going away."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.chat import Chat
from tests.widgets.sample import CALL_JOHN, NOW, a_task, refusal, stamp, weekly

pytestmark = pytest.mark.browser

MOVABLE = ["Move", "Cancel", "More"]
STATES: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("scheduled", {}, "Scheduled", MOVABLE),
    ("waiting", {"waiting_for": ["t_0000000000a0"]}, "Waiting", MOVABLE),
    ("ready", {}, "Ready", MOVABLE),
    ("running", {"attempt": 1}, "Running", ["Cancel", "More"]),
    ("suspended", {}, "Suspended", MOVABLE),
    ("retrying", {"attempt": 2}, "Trying again", MOVABLE),
    ("succeeded", {"delivery": {"channel": "inbox", "state": "delivered"}}, "Reminded", ["Snooze", "History"]),
    ("failed", {"last_run": {"state": "failed", "summary": "HTTP 500"}}, "Failed", ["Snooze", "Run again", "History"]),
    ("cancelled", {"delivery": None}, "Cancelled", ["History"]),
    ("expired", {}, "Expired", ["Snooze", "Run again", "History"]),
    ("skipped", {"delivery": None}, "Skipped", ["History"]),
]


@pytest.mark.parametrize(("notify", "word"), [("never", "Succeeded"), ("failure", "Succeeded"), ("change", "Reminded")])
def test_a_reminder_of_which_nobody_was_told_has_only_succeeded(chat: Chat, notify: str, word: str) -> None:
    chat.show_task(a_task(state="succeeded", notify=notify))
    expect(chat.state()).to_have_text(word)


def test_a_state_has_its_word_its_icon_and_its_buttons(chat: Chat) -> None:
    for state, parts, word, buttons in STATES:
        chat.show_task(a_task(state=state, **parts))
        expect(chat.state(), state).to_have_text(word)
        expect(chat.state().locator("svg"), state).to_be_visible()
        expect(chat.card.get_by_role("heading"), state).to_have_text("Call John about the lease")
        actions = chat.card.get_by_role("group", name="Actions").get_by_role("button")
        expect(actions, state).to_have_text(buttons)


def test_a_paused_task_that_was_asked_to_stop_is_stopping_and_has_no_cancel(chat: Chat) -> None:
    chat.show_task(a_task(paused=True, state="running", cancel_requested=True))
    expect(chat.state()).to_have_text("Stopping")
    expect(chat.button("Cancel")).to_have_count(0)


def test_a_run_of_a_paused_task_is_read_again_until_it_has_ended(chat: Chat) -> None:
    chat.show_task(a_task(due=NOW, paused=True, state="running", progress={"part": 0.08}))
    expect(chat.state()).to_have_text("Paused")
    chat.server.tasks[CALL_JOHN] = a_task(due=NOW, paused=True, state="running", progress={"part": 0.61})
    chat.pass_time(3)
    expect(chat.card.locator(".facts")).to_contain_text("61")
    chat.server.tasks[CALL_JOHN] = a_task(state="cancelled")
    chat.pass_time(3)
    expect(chat.state()).to_have_text("Cancelled")


def test_a_paused_task_says_so_instead_of_scheduled(chat: Chat) -> None:
    chat.show_task(a_task(paused=True))
    expect(chat.state()).to_have_text("Paused")


def test_a_reminder_says_that_it_does_no_work(chat: Chat) -> None:
    chat.show_task(a_task(effect="This only reminds; nothing does the work."))
    expect(chat.card.get_by_text("This only reminds; nothing does the work.")).to_be_visible()


def test_a_task_becomes_overdue_while_it_is_looked_at_and_nobody_starts_it(chat: Chat) -> None:
    chat.show_task(a_task(due=NOW + timedelta(seconds=5)))
    expect(chat.state()).to_have_text("Scheduled")

    chat.pass_time(70)

    expect(chat.state()).to_have_text("Overdue")


def test_the_card_greets_its_host_before_it_says_anything_else(chat: Chat) -> None:
    chat.show_task(a_task())
    expect(chat.state()).to_be_visible()

    assert chat.seen("messages")[:2] == ["ui/initialize", "ui/notifications/initialized"]
    assert chat.seen("messages").count("ui/initialize") == 1
    assert chat.calls() == []


def test_the_card_reports_its_real_height_so_that_nothing_is_cut_off(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.press("More")
    expect(chat.button("Run now")).to_be_visible()

    chat.fit()
    assert chat.seen("sizes")[-1]["height"] == chat.card.evaluate("innerHeight")
    assert chat.card.evaluate("(root => root.scrollHeight <= root.clientHeight)(document.documentElement)")


def test_while_the_tool_runs_the_card_shows_what_was_asked_for(chat: Chat) -> None:
    chat.load("task-card")
    expect(chat.card.get_by_text("Reading the task…")).to_be_visible()

    chat.send("input", {"title": "Call John", "when": "tomorrow 9am"})

    expect(chat.card.get_by_role("heading")).to_have_text("Call John")
    expect(chat.card.locator("main")).to_have_attribute("aria-busy", "true")


def test_a_call_that_failed_shows_the_servers_sentence(chat: Chat) -> None:
    chat.load("task-card")
    chat.send("result", refusal("when: 'yesterday' is past; nearest: 'tomorrow'."))

    expect(chat.card.get_by_role("alert")).to_have_text("when: 'yesterday' is past; nearest: 'tomorrow'.")
    expect(chat.card.locator("main")).to_have_attribute("aria-busy", "false")


def test_a_call_that_was_cancelled_leaves_no_spinner_behind(chat: Chat) -> None:
    chat.load("task-card")
    chat.send("cancelled", "stopped by the user")
    expect(chat.card.get_by_role("alert")).to_have_text("The call was cancelled: stopped by the user")


def test_the_hosts_theme_and_colours_are_worn_and_followed(chat: Chat) -> None:
    chat.show_task(a_task())
    body = chat.card.locator("body")
    expect(body).to_have_css("background-color", "rgb(255, 255, 255)")

    chat.send("context", {"theme": "dark"})
    expect(body).to_have_css("color-scheme", "dark")
    expect(body).to_have_css("background-color", "rgb(31, 31, 30)")

    chat.send("context", {"theme": "dark", "styles": {"variables": {"--color-background-primary": "#102030"}}})
    expect(body).to_have_css("background-color", "rgb(16, 32, 48)")


def test_times_are_in_the_hosts_zone_and_language_with_the_tasks_own_zone_next_to_them(chat: Chat) -> None:
    chat.show_task(a_task(), timeZone="Europe/Berlin", locale="de-DE")

    expect(chat.card.locator("time").first).to_have_text("17:00 Dienstag, 24. November")
    expect(chat.card.locator(".there")).to_have_text("Di., 24. Nov., 09:00 in Denver")
    expect(chat.card.locator(".relative")).to_have_text("übermorgen")


def test_a_reader_in_the_tasks_zone_gets_the_servers_wall_time_even_from_a_browser_with_old_zone_data(
    chat: Chat,
) -> None:
    task = a_task(repeat={**weekly(), "next": ["2026-11-24T10:00:00-06:00"]})
    task["when"]["local"] = "2026-11-24T10:00:00"
    chat.show_task(task)

    expect(chat.card.locator("time").first).to_have_text("10:00 AM Tuesday, November 24")
    expect(chat.card.locator("details li")).to_have_text("Tue, Nov 24, 10:00 AM")

    chat.send("context", {"timeZone": "Europe/Berlin"})
    expect(chat.card.locator("time").first).to_have_text("5:00 PM Tuesday, November 24")
    expect(chat.card.locator(".there")).to_have_text("Tue, Nov 24, 10:00 AM in Denver")


def test_a_zone_that_shows_the_same_time_is_not_repeated(chat: Chat) -> None:
    chat.show_task(a_task(), timeZone="America/Boise")
    expect(chat.card.locator("time").first).to_contain_text("9:00 AM")
    expect(chat.card.locator(".there")).to_have_count(0)


def test_the_zone_of_the_host_may_change_under_the_card(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.send("context", {"timeZone": "Asia/Kathmandu", "locale": "en-GB"})
    expect(chat.card.locator("time").first).to_have_text("21:45 Tuesday 24 November")


def test_the_distance_to_the_time_is_live(chat: Chat) -> None:
    chat.show_task(a_task(due=NOW + timedelta(seconds=91)))
    away = chat.card.locator(".relative")
    expect(away).to_have_text("in 2 minutes")
    chat.pass_time(2)
    expect(away).to_have_text("in 1 minute")
    chat.pass_time(30)
    expect(away).to_have_text("in 59 seconds")


def test_a_recurrence_is_said_in_words_with_its_next_times(chat: Chat) -> None:
    chat.show_task(a_task(repeat={**weekly(), "notes": ["1 Nov: clocks go back"]}))
    chat.click(chat.card.get_by_text("every Tuesday at 09:00"))

    expect(chat.card.locator("details li")).to_have_count(5)
    expect(chat.card.locator("details li").first).to_have_text("Tue, Nov 24, 9:00 AM")
    expect(chat.card.get_by_text("1 Nov: clocks go back")).to_be_visible()

    chat.send("context", {"theme": "dark"})
    expect(chat.card.locator("details li").first).to_be_visible()


def test_everything_that_is_known_of_a_task_is_on_its_card(chat: Chat) -> None:
    last = {"state": "failed", "ended": stamp(NOW - timedelta(days=1)), "summary": "HTTP 500 from the shop"}
    delivery = {"channel": "desk", "state": "failed", "error": "no such desk"}
    chat.show_task(
        a_task(
            message="He has the keys", last_run=last, delivery=delivery, labels=["home", "team=sales"],
            waiting_for=["the pool gpu"], warnings=["Very like it."],
        )
    )  # fmt: skip

    for text in ("He has the keys", "Last time: failed", "HTTP 500 from the shop", "Could not be delivered to desk"):
        expect(chat.card.get_by_text(text)).to_be_visible()
    for text in ("no such desk", "Waits for the pool gpu", "Very like it.", "Created by maria"):
        expect(chat.card.get_by_text(text)).to_be_visible()
    expect(chat.card.locator(".label")).to_have_text(["home", "team=sales"])


def test_the_key_of_a_run_stands_with_its_labels(chat: Chat) -> None:
    key = {"template": "{label.account}:{window}", "run": "acme:2026-11-24T16:00Z"}
    chat.show_task(a_task(idempotency_key=key, labels=["account:acme"], owner="local"))
    expect(chat.card.locator(".label")).to_have_text(["account:acme", "acme:2026-11-24T16:00Z"])
    chat.show(a_task(idempotency_key=key, owner="local"))
    expect(chat.card.locator(".label")).to_have_text(["acme:2026-11-24T16:00Z"])


def test_labels_begin_where_other_facts_do(chat: Chat) -> None:
    chat.show_task(a_task(labels=["home", "lease"], owner="maria"))
    expect(chat.card.locator(".label")).to_have_count(2)
    begin = "element => element.getBoundingClientRect().left - element.closest('dd').getBoundingClientRect().left"
    assert [chat.card.locator(".label").nth(place).evaluate(begin) == 0 for place in range(2)] == [True, False]


def test_an_old_answer_is_read_again_by_its_id(chat: Chat) -> None:
    old = a_task(now=stamp(NOW - timedelta(hours=2)))
    chat.server.tasks[old["id"]] = old
    chat.server.change(state="cancelled", delivery=None)
    chat.load("task-card")
    chat.show(old)

    expect(chat.state()).to_have_text("Cancelled")
    assert chat.calls() == [("get_task", {"task_id": old["id"]})]


def test_the_card_reads_its_task_again_when_it_wakes(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.server.change(title="Call John at noon")
    chat.wake()
    expect(chat.card.get_by_role("heading")).to_have_text("Call John at noon")


def test_a_task_that_became_due_is_watched_until_it_ended(chat: Chat) -> None:
    chat.show_task(a_task(due=NOW + timedelta(seconds=3)))
    chat.pass_time(2)
    assert chat.calls() == []

    chat.server.change(state="succeeded", delivery={"channel": "inbox, desk", "state": "delivered"})
    chat.pass_time(4)

    expect(chat.state()).to_have_text("Reminded")
    expect(chat.card.get_by_text("Delivered to desk")).to_be_visible()


def test_a_task_that_is_gone_says_so_and_can_be_asked_for_again(chat: Chat) -> None:
    chat.load("task-card")
    gone = a_task(now=stamp(NOW - timedelta(hours=2)))
    chat.show(gone)
    expect(chat.card.get_by_role("alert")).to_contain_text(f"no task '{gone['id']}'")


def test_the_answer_to_a_dry_run_has_no_buttons(chat: Chat) -> None:
    chat.load("task-card")
    chat.show(a_task(id="dry-run", revision=0))
    expect(chat.state()).to_have_text("Dry run")
    expect(chat.card.get_by_role("button")).to_have_count(0)


def test_a_host_that_calls_no_tools_gets_words_instead_of_buttons(chat: Chat) -> None:
    chat.show_task(a_task(), capabilities={})
    expect(chat.card.get_by_text("ask in words to change this task")).to_be_visible()
    expect(chat.card.get_by_role("button")).to_have_count(0)


def test_the_card_answers_its_teardown(chat: Chat) -> None:
    chat.show_task(a_task(due=NOW + timedelta(seconds=3)))
    expect(chat.state()).to_be_visible()

    chat.send("teardown")
    assert chat.await_seen("goodbye") == {}


@pytest.mark.parametrize("locale", ["en-US", "de-DE"])
def test_reasons_without_room_are_counted_in_no_language(chat: Chat, locale: str) -> None:
    waits = [*({"kind": "pool", "pool": f"gpu-{n}"} for n in range(4)), {"kind": "more", "count": 3}]
    said = [*(f"the pool gpu-{n}" for n in range(4)), "3 more things"]
    chat.show_task(a_task(state="ready", waits=waits, waiting_for=said), locale=locale)
    expect(chat.card.locator(".reasons li")).to_have_count(5)
    expect(chat.card.locator(".reasons li").last).to_have_text("+3")


def test_a_card_reads_its_task_at_once_when_the_host_forwards_that_tasks_changed(chat: Chat) -> None:
    chat.show_task(a_task())
    chat.server.change(title="Call Ann")
    chat.send("listChanged")
    expect(chat.card.get_by_role("heading", name="Call Ann")).to_be_visible()

"""The list card: the agenda and its counts, tasks opened in place, further pages, and what an empty one says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.waits.approval import USUAL_QUESTION
from playwright.sync_api import Locator, expect

from tests.widgets.agenda import COUNTS, ROWS, TAXES, a_page, a_row, call_john
from tests.widgets.chat import Chat
from tests.widgets.sample import CALL_JOHN, NOW, refusal, stamp, when
from tests.widgets.sources.test_languages import words

pytestmark = pytest.mark.browser


def show_list(chat: Chat, page: dict[str, Any], *further: dict[str, Any], **context: Any) -> None:
    chat.server.pages = [page, *further]
    chat.server.tasks[CALL_JOHN] = call_john()
    chat.load("task-list", **context)
    chat.show(page)


def row(chat: Chat, title: str) -> Locator:
    return chat.card.locator(".row", has_text=title)


def test_tasks_stand_under_the_headings_of_an_agenda(chat: Chat) -> None:
    show_list(chat, a_page())

    expect(chat.card.get_by_role("heading", level=2)).to_have_text(
        ["Overdue 1", "Today 2", "This week 2", "Later 1", "Ended 1"]
    )
    expect(chat.card.get_by_role("region", name="Today").locator(".name")).to_have_text(
        ["Take the bread out of the oven", "Ask for my notes of the dayrepeats"]
    )
    expect(chat.card.locator(".word")).to_have_text(["Overdue", "", "", "", "Trying again", "Paused", "Reminded"])


def test_the_days_are_those_of_the_readers_zone(chat: Chat) -> None:
    show_list(chat, a_page([a_row(TAXES, "Near midnight", 60)]), timeZone="Europe/London", locale="en-GB")
    expect(chat.card.get_by_role("heading", level=2)).to_have_text(["This week 1"])
    expect(chat.card.locator(".due")).to_have_text("Tomorrow 00:00")

    chat.send("context", {"timeZone": "America/Denver", "locale": "en-US"})
    expect(chat.card.get_by_role("heading", level=2)).to_have_text(["Today 1"])
    expect(chat.card.locator(".due")).to_have_text("5:00 PM in 1 hour")


def test_the_counts_are_those_of_the_whole_filter(chat: Chat) -> None:
    show_list(chat, a_page(ROWS[:2], cursor="c1"))
    expect(chat.card.get_by_role("list", name="Counts by state").get_by_role("listitem")).to_have_text(
        ["5 scheduled", "1 trying again", "1 succeeded"]
    )


def test_a_task_opens_in_place_and_another_one_closes_it(chat: Chat) -> None:
    show_list(chat, a_page())
    chat.click(row(chat, "Call John"))

    expect(chat.card.get_by_role("article", name="Call John about the lease")).to_be_visible()
    expect(row(chat, "Call John")).to_have_attribute("aria-expanded", "true")
    assert chat.calls() == [("get_task", {"task_id": CALL_JOHN})]

    chat.click(row(chat, "Call John"))
    expect(chat.card.get_by_role("article")).to_have_count(0)


def test_a_change_in_an_open_task_shows_in_its_row_and_in_the_counts(chat: Chat) -> None:
    show_list(chat, a_page())
    chat.click(row(chat, "Call John"))
    rows = [{**one, "state": "cancelled"} if one["id"] == CALL_JOHN else one for one in ROWS]
    chat.server.pages = [a_page(rows, counts={**COUNTS, "scheduled": 4, "cancelled": 1})]
    chat.press("Cancel")

    expect(chat.button("Undo")).to_be_visible()
    expect(row(chat, "Call John").locator(".word")).to_have_text("Cancelled")
    expect(chat.card.get_by_role("list", name="Counts by state")).to_contain_text("1 cancelled")
    assert "cancelled" in chat.told_model()[0]

    chat.server.pages = [a_page()]
    chat.press("Undo")
    expect(row(chat, "Call John").locator(".word")).to_have_text("")


def failure(minutes: float, why: str, attempts: int) -> dict[str, Any]:
    ended = stamp(NOW + timedelta(minutes=minutes))
    return {"state": "failed", "ended": ended, "summary": why, "attempts": attempts}


def test_a_list_of_failures_says_when_why_and_what_is_next(chat: Chat) -> None:
    rows = [
        a_row(CALL_JOHN, "Call John about the lease", 60 * 24, repeat=True, last_run=failure(-20, "No such number", 3)),
        a_row(TAXES, "Send the tax papers to Ann", -95, state="failed", last_run=failure(-90, "HTTP 500", 1)),
    ]
    page = a_page(rows, failures=True, counts={"failed": 2})
    show_list(chat, page)

    expect(chat.card.get_by_role("heading", level=2)).to_have_text(["Last run failed 2"])
    expect(chat.card.locator(".mark")).to_have_text(["Failed:", "Failed:"])
    expect(row(chat, "Call John").locator(".why")).to_have_text("No such number")
    expect(row(chat, "Call John").locator(".urgency")).to_contain_text("3 attempts")
    expect(row(chat, "Call John").locator(".urgency")).to_contain_text("next Sun, Nov 22, 4:00 PM")
    expect(row(chat, "Call John").locator(".due")).to_contain_text("20 minutes ago")
    expect(row(chat, "tax papers").locator(".urgency")).to_have_text("HTTP 5001 attempt")
    expect(chat.card.get_by_role("list", name="Counts by state").get_by_role("listitem")).to_have_text(["2 failed"])

    chat.click(row(chat, "Call John"))
    chat.server.pages = [page]
    chat.press("Cancel")
    expect(chat.button("Undo")).to_be_visible()
    expect(row(chat, "Call John").locator(".why")).to_have_text("No such number")


def test_an_open_task_whose_last_run_failed_says_so_in_the_agenda(chat: Chat) -> None:
    last = {"state": "failed", "ended": stamp(NOW)}
    show_list(chat, a_page([a_row(CALL_JOHN, "Call John about the lease", 20, repeat=True, last_run=last)]))
    expect(row(chat, "Call John").locator(".urgency")).to_have_text("last run failed")


def test_a_row_says_that_it_stops_and_until_when_something_holds_it(chat: Chat) -> None:
    [paused, waiting, held] = (stamp(NOW + timedelta(hours=hours)) for hours in (20, 2, 9))
    event = {"kind": "event", "event": "order.paid", "until": waiting, "goes_on": False}
    rows = [
        a_row(CALL_JOHN, "Call John", 1, state="running", cancel_requested=True),
        a_row(TAXES, "Send the papers", 2, paused=True, paused_until=paused),
        a_row("t_000000000001", "Ship it", 3, state="waiting", event="order.paid", waits=[event]),
        a_row("t_000000000002", "Sync", -0.5, state="ready", waits=[{"kind": "pool", "pool": "api", "until": waiting}]),
        a_row("t_000000000003", "Back up", -9, state="failed", held_until=held),
    ]
    show_list(chat, a_page(rows))
    expect(row(chat, "Call John").locator(".word")).to_have_text("Stopping")
    expect(row(chat, "Send the papers").locator(".held")).to_have_text("Paused until Sun, Nov 22, 12:00 PM")
    expect(row(chat, "Ship it").locator(".held")).to_have_text(
        "Waits for the event order.paidEnds in 2 hours, then does not run"
    )
    expect(row(chat, "Sync").locator(".held")).to_have_text("Waits for api to be freein 2 hours")
    expect(row(chat, "Back up").locator(".held")).to_have_text("Held until Sun, Nov 22, 1:00 AM (quiet hours)")


def test_no_failures_is_good_news(chat: Chat) -> None:
    chat.load("task-list")
    chat.send("input", {"state": "failed"})
    chat.show(a_page([], failures=True))
    expect(chat.card.get_by_role("heading")).to_have_text("No task failed when it last ran")


def test_each_occurrence_has_a_row_that_opens_its_task_and_clashes_are_named(chat: Chat) -> None:
    rows = [
        a_row(CALL_JOHN, "Call John about the lease", 20, repeat=True),
        a_row(TAXES, "Send the tax papers to Ann", 30),
        a_row(CALL_JOHN, "Call John about the lease", 40, repeat=True, expected=True),
    ]
    members = [{"id": row["id"], "when": row["when"], "takes": "15 min"} for row in rows[:2]]
    clash = {"pool": "phone", "room": "1 slot", "at": rows[1]["when"], "occurrences": members}
    show_list(chat, a_page(rows, clashes=[clash]))

    expect(chat.card.locator(".row")).to_have_count(3)
    expect(chat.card.get_by_role("list", name="Clashes")).to_contain_text(
        "Together they need more of phone than it has (1 slot):"
    )
    expect(chat.card.get_by_role("list", name="Clashes")).to_contain_text("Send the tax papers to Ann")
    later = chat.card.locator(f'.row[data-key^="row-{CALL_JOHN} "]')
    chat.click(later)
    expect(chat.card.get_by_role("article", name="Call John about the lease")).to_have_count(1)
    expect(later).to_have_attribute("aria-expanded", "true")
    expect(chat.card.locator('.row[aria-expanded="true"]')).to_have_count(1)
    assert chat.calls() == [("get_task", {"task_id": CALL_JOHN})]


def test_the_next_page_is_added_below(chat: Chat) -> None:
    show_list(chat, a_page(ROWS[:4], cursor="c1"), a_page(ROWS[4:]))
    chat.send("input", {"state": "open", "limit": 4})
    chat.press("Show more")

    expect(chat.card.locator(".row")).to_have_count(7)
    expect(chat.button("Show more")).to_have_count(0)
    expect(chat.said()).to_have_text("3 more tasks")
    assert chat.calls() == [("list_tasks", {"state": "open", "limit": 4, "cursor": "c1"})]


def test_nothing_scheduled_says_how_something_comes_to_be(chat: Chat) -> None:
    show_list(chat, a_page([]))
    expect(chat.card.get_by_role("heading")).to_have_text("Nothing is scheduled")
    expect(chat.card.get_by_role("listitem")).to_have_count(3)


def test_nothing_found_says_that_the_filter_is_why(chat: Chat) -> None:
    chat.load("task-list")
    chat.send("input", {"label": "home"})
    chat.show(a_page([]))
    expect(chat.card.get_by_role("heading")).to_have_text("No task matches")


def test_a_list_that_could_not_be_read_says_why_and_can_be_asked_for_again(chat: Chat) -> None:
    chat.load("task-list")
    chat.send("result", refusal("The store is not available. Try again in a moment."))
    expect(chat.card.get_by_role("alert")).to_have_text("The store is not available. Try again in a moment.")

    chat.server.pages = [a_page()]
    chat.press("Try again")
    expect(chat.card.get_by_role("heading", name="Tasks")).to_be_visible()


def test_a_page_that_could_not_be_read_leaves_the_list_as_it_is(chat: Chat) -> None:
    show_list(chat, a_page(ROWS[:4], cursor="c1"))
    chat.server.refuse = "cursor: it has expired. Ask without it."
    chat.press("Show more")
    expect(chat.card.get_by_role("alert")).to_have_text("cursor: it has expired. Ask without it.")
    expect(chat.card.locator(".row")).to_have_count(4)


def test_an_old_list_is_read_again(chat: Chat) -> None:
    chat.server.pages = [a_page()]
    chat.load("task-list")
    chat.send("input", {"label": "home"})
    chat.show(a_page(ROWS[:1], now="2026-11-21T20:00:00Z"))
    expect(chat.card.locator(".row")).to_have_count(7)
    assert chat.calls() == [("list_tasks", {"label": "home"})]


def test_new_outcomes_are_mentioned_once_at_the_top(chat: Chat) -> None:
    told = {"task_id": CALL_JOHN, "title": "Pay the rent", "text": "Paid", "state": "succeeded", "at": stamp(NOW)}
    show_list(chat, a_page(unread=[told]))
    expect(chat.card.get_by_role("list", name="New outcomes")).to_have_text("Pay the rent Paid")


def test_the_usual_question_is_asked_in_the_language_of_the_reader(chat: Chat) -> None:
    asked = {"task_id": CALL_JOHN, "title": "Miete", "text": USUAL_QUESTION, "state": "waiting", "at": stamp(NOW)}
    show_list(chat, a_page(unread=[asked]), locale="de-DE")
    expect(chat.card.locator(".news")).to_have_text(f"Miete {words('de', 'wait.approval')}")


def test_the_list_is_walked_and_opened_with_the_keyboard(chat: Chat) -> None:
    show_list(chat, a_page(ROWS[2:5]))
    chat.server.change(when=when(NOW + timedelta(minutes=30)))
    keys = chat.page.keyboard
    row(chat, "Ask for my notes").focus()
    keys.press("Tab")
    expect(row(chat, "Call John")).to_be_focused()
    keys.press("Enter")
    expect(chat.button("Snooze")).to_be_visible()
    expect(row(chat, "Call John")).to_be_focused()

    chat.button("Snooze").focus()
    keys.press("Space")
    chat.choice("10 min").focus()
    chat.server.pages = [a_page([a_row(CALL_JOHN, "Call John about the lease", 10)])]
    keys.press("Enter")
    expect(row(chat, "Call John").locator(".due")).to_contain_text("in 10 minutes")
    expect(chat.button("Snooze")).to_be_focused()

    row(chat, "Call John").focus()
    keys.press("Space")
    expect(chat.card.get_by_role("article")).to_have_count(0)
    expect(row(chat, "Call John")).to_be_focused()


def test_at_320_pixels_the_list_does_not_scroll_sideways(chat: Chat) -> None:
    long = a_row(TAXES, "Donaudampfschifffahrtselektrizitätenwerk", 60 * 24 * 400, paused=True, repeat=True)
    show_list(chat, a_page([long, *ROWS[1:]], cursor="c1"), width=320, locale="de-DE", timeZone="Asia/Kathmandu")
    chat.click(row(chat, "Call John"))
    expect(chat.button("Verschieben")).to_be_visible()
    assert not chat.too_wide


def test_titles_in_a_list_are_text_too(chat: Chat) -> None:
    show_list(chat, a_page([a_row(TAXES, "<b>Pay</b> \u202etxt.exe", 5)]))
    expect(chat.card.locator(".name")).to_have_text("<b>Pay</b> \u202etxt.exe")
    expect(chat.card.locator("b")).to_have_count(0)


def test_a_row_that_leaves_the_filter_stays_with_its_undo_and_pages_stay_loaded(chat: Chat) -> None:
    show_list(chat, a_page(ROWS[:4], cursor="c1"), a_page(ROWS[4:]))
    chat.send("input", {"state": "open", "limit": 4})
    chat.press("Show more")
    expect(chat.card.locator(".row")).to_have_count(7)

    chat.click(row(chat, "Call John"))
    left = [one for one in ROWS if one["id"] != CALL_JOHN]
    chat.server.pages = [a_page(left[:4], cursor="c1"), a_page(left[4:])]
    chat.press("Cancel")

    expect(chat.button("Undo")).to_be_visible()
    expect(row(chat, "Call John").locator(".word")).to_have_text("Cancelled")
    expect(chat.card.locator(".row")).to_have_count(7)
    chat.press("Undo")
    expect(row(chat, "Call John").locator(".word")).to_have_text("")


def test_a_list_is_read_at_once_when_the_host_forwards_that_tasks_changed(chat: Chat) -> None:
    show_list(chat, a_page(ROWS[:2]))
    chat.server.pages = [a_page(ROWS[:3])]
    chat.send("listChanged")
    expect(chat.card.locator(".row")).to_have_count(3)
    assert chat.calls() == [("list_tasks", {})]


def test_a_list_that_stays_as_it_is_is_read_less_often_until_it_changes(chat: Chat) -> None:
    show_list(chat, a_page([a_row(CALL_JOHN, "Call John about the lease", 600)]))
    counts = []
    for _ in range(8):
        chat.pass_time(61)
        counts.append(len(chat.calls()))
    assert counts == [1, 1, 2, 2, 2, 2, 3, 3]
    chat.server.pages = [a_page([a_row(CALL_JOHN, "Call Ann", 600)])]
    chat.send("listChanged")
    expect(row(chat, "Call Ann")).to_be_visible()
    chat.pass_time(61)
    assert len(chat.calls()) == 5


def test_a_list_follows_what_happens_to_its_tasks(chat: Chat) -> None:
    show_list(chat, a_page([a_row(CALL_JOHN, "Call John about the lease", 1)]))
    chat.server.pages = [a_page([{**a_row(CALL_JOHN, "Call John about the lease", 1), "state": "succeeded"}])]
    chat.pass_time(75)
    expect(row(chat, "Call John").locator(".word")).to_have_text("Succeeded")

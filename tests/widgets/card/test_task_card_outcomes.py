"""A card after its task has fired: what came of it, why it failed, what can be done now, and what takes it back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.task import State
from duetime.scheduler.view_parts import WaitKind
from duetime.widgets import build, catalogue
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.text.summary import look
from duetime.widgets.text.task_text import task_text
from duetime.widgets.vocabulary import STATE_LABELS, word_of
from playwright.sync_api import Locator, expect

from tests.widgets.chat import CAN_CALL_TOOLS, Chat
from tests.widgets.sample import CALL_JOHN, NOW, UNDO, a_task, held_back, soon, stamp, weekly

pytestmark = pytest.mark.browser

EARLIER = NOW - timedelta(minutes=5)
UNREAD = [{"task_id": CALL_JOHN, "text": "Call John", "state": "succeeded", "at": stamp(EARLIER)}]
SUCCEEDED = {"state": "succeeded", "ended": stamp(EARLIER)}
REMINDED: dict[str, Any] = {"due": EARLIER, "state": "succeeded", "last_run": SUCCEEDED}
OPENS_LINKS = {**CAN_CALL_TOOLS, "openLinks": {}}


def failed(**parts: Any) -> dict[str, Any]:
    said = "ValueError: HTTP 404 from https://example.org/hook"
    last = {"state": "failed", "ended": stamp(EARLIER), "summary": said, "attempts": 3}
    return a_task(**{"due": EARLIER, "state": "failed", "action": "webhook", "last_run": last, **parts})


# --- one word for one state -------------------------------------------------------------------------------------------


def test_the_catalogue_has_the_words_of_the_text() -> None:
    english = catalogue.read(build.SOURCES / build.LANGUAGES)["en"]
    assert {
        key.removeprefix("state."): text for key, text in english.items() if key.startswith("state.")
    } == STATE_LABELS


@pytest.mark.parametrize("action", ["reminder", "render"])
def test_a_card_has_the_word_of_the_text_for_each_state(chat: Chat, action: str) -> None:
    tasks = [a_task(due=EARLIER, state=state, action=action, last_run=SUCCEEDED) for state in State]
    tasks += [held_back(), a_task(paused=True), a_task(due=EARLIER), a_task(state="running", cancel_requested=True)]
    tasks += [a_task(state="scheduled", blocked=True)]
    chat.show_task(tasks[0])
    for task in tasks:
        chat.show(task)
        payload = TaskPayload.model_validate(task)
        expect(chat.state()).to_have_text(STATE_LABELS[look(payload)])
        assert word_of(look(payload)) in task_text(payload).splitlines()[0].lower()


# --- after it fired ---------------------------------------------------------------------------------------------------


def test_a_reminder_that_came_says_so_and_offers_done_and_snooze(chat: Chat) -> None:
    chat.show_task(a_task(**REMINDED, unread=UNREAD))

    expect(chat.state()).to_have_text("Reminded")
    expect(chat.card.get_by_role("group", name="Actions").get_by_role("button")).to_have_text(
        ["Done", "Snooze", "History"]
    )


def test_a_failure_without_an_attempt_counts_none(chat: Chat) -> None:
    why = "it did not run: t_00000000000c (Weekly report: fetch) failed"
    chat.show_task(failed(last_run={"state": "failed", "ended": stamp(EARLIER), "summary": why}))

    expect(chat.card.locator("[data-failure] p")).to_have_text(["Failed", why])


def test_a_failure_has_a_look_of_its_own_with_the_reason_and_runs_again(chat: Chat) -> None:
    chat.show_task(failed())

    notice = chat.card.locator("[data-failure]")
    expect(notice.locator("p")).to_have_text(["It failed after 3 attempts.", "HTTP 404 from https://example.org/hook"])
    expect(chat.card.get_by_text("HTTP 404")).to_have_count(1)
    chat.press("Run again")
    expect(chat.state()).to_have_text("Ready")
    expect(notice).to_have_count(0)
    assert chat.calls() == [("act_on_task", {"task_id": CALL_JOHN, "action": "run_now", "revision": 3})]


def test_a_series_whose_last_run_failed_can_be_run_again_too(chat: Chat) -> None:
    chat.show_task(a_task(repeat=weekly(), last_run={"state": "failed", "ended": stamp(EARLIER), "summary": "no"}))
    expect(chat.button("Run again")).to_be_visible()
    expect(chat.card.locator(".facts")).to_contain_text("Last time: failed")


@pytest.mark.parametrize(("locale", "cost", "said"), [
    ("en-US", "0.0042 EUR", "Cost €0.0042"), ("de-DE", "12.50 EUR", "Kosten: 12,50\xa0€"), ("en-US", "0.30 XYZQ", ""),
])  # fmt: skip
def test_the_cost_of_a_run_is_written_as_the_reader_writes_money(chat: Chat, locale: str, cost: str, said: str) -> None:
    chat.show_task(a_task(due=EARLIER, state="succeeded", action="import", cost=cost), locale=locale)
    costs = chat.card.locator(".fact", has=chat.card.locator(".icon-tag")).locator("dd")
    expect(costs).to_have_count(1 if said else 0)
    assert costs.all_inner_texts() == [said] * bool(said)


def test_the_way_back_to_a_conversation_is_named_by_its_client(chat: Chat) -> None:
    chat.show_task(a_task(delivery={"channel": "inbox, origin:claude-code, team", "state": "pending"}))
    expect(chat.card.locator(".facts")).to_contain_text("claude-code, team")
    expect(chat.card.locator(".facts")).not_to_contain_text("origin:")


def test_work_shows_its_result_and_the_host_opens_its_links(chat: Chat) -> None:
    result = {"status": 200, "report": "https://example.org/r/7?a=1", "bad": "javascript:alert(1)", "nested": {"x": 1}}
    done = {"state": "succeeded", "ended": stamp(EARLIER), "summary": "See http://example.org/log and ftp://x.org"}
    task = a_task(due=EARLIER, state="succeeded", action="render", result=result, last_run=done)
    chat.show_task(task, capabilities=OPENS_LINKS)

    links = chat.card.locator("button.link")
    expect(links).to_have_text(["example.org/r/7?a=1", "example.org/log"])
    expect(chat.card.locator(".facts")).to_contain_text("status: 200")
    chat.click(links.first)
    assert chat.seen("links") == ["https://example.org/r/7?a=1"]
    expect(chat.card.locator("a")).to_have_count(0)


def test_a_host_that_opens_no_links_gets_words(chat: Chat) -> None:
    chat.show_task(failed())
    expect(chat.card.locator(".facts")).to_contain_text("example.org/hook")
    expect(chat.card.locator("button.link")).to_have_count(0)


def test_a_run_says_how_far_it_is(chat: Chat) -> None:
    chat.show_task(a_task(due=EARLIER, state="running", action="render", progress={"part": 0.4, "text": "frame 40"}))
    expect(chat.card.locator(".facts")).to_contain_text("40% doneframe 40")
    done = chat.card.locator(".laxity .part")
    assert (done.get_attribute("x"), done.get_attribute("width")) == ("0", "40")


@pytest.mark.parametrize(
    ("locale", "said"),
    [
        ("en-US", "Looks at shop.example every 15 min until Fri, Dec 4, 2:00"),
        ("de-DE", "Sieht alle 15 min bei shop.example nach bis Fr., 4. Dez."),
    ],
)
def test_a_watch_says_what_it_looks_at_how_often_until_when_and_what_it_saw_last(
    chat: Chat, locale: str, said: str
) -> None:
    last, end = "not met yet: packed", "Fri 4 Dec 2026 09:00"
    watched = a_task(
        due=EARLIER,
        state="suspended",
        action="watch",
        target={"address": "https://shop.example/7", "every": "15 min", "ends": end, "until": "2026-12-04T09:00:00Z"},
        progress={"part": 0, "unknown": True, "text": "3 looks at shop.example"},
    )
    waits = {"waiting_for": [f"its next step in 15 min, after: {last}"], "waits": [{"kind": "step", "after": last}]}
    chat.show_task({**watched, **waits}, locale=locale)
    facts = chat.card.locator(".facts")
    expect(facts).to_contain_text(said)
    expect(facts).to_contain_text(last)
    expect(facts).not_to_contain_text("3 looks")


def test_a_card_names_the_client_that_asked_as_plain_text(chat: Chat) -> None:
    chat.show_task(a_task(**REMINDED, origin={"client": "<b>chat</b>", "thread": "th_7"}))
    expect(chat.card.locator("[data-origin]")).to_have_text("Asked for in <b>chat</b>")


def test_an_unverified_success_is_a_warning_with_its_reason(chat: Chat) -> None:
    last = {"state": "succeeded", "ended": stamp(EARLIER), "unverified": "the result has no <b>`order_id`</b>"}
    chat.show_task(a_task(due=EARLIER, state="succeeded", action="order", last_run=last))
    expect(chat.card.locator("[data-unverified]")).to_contain_text("the result has no <b>`order_id`</b>")


LOG = [{"at": stamp(EARLIER), "text": f"page {number}"} for number in range(1, 6)]


def test_a_run_shows_its_last_log_lines_while_it_runs_and_more_of_them_with_its_history(chat: Chat) -> None:
    running = a_task(due=NOW, state="running", action="render", log={"lines": LOG[:1]})
    chat.show_task(running)
    lines = chat.card.locator(".facts .log li bdi")
    expect(lines).to_have_text(["page 1"])
    loud = {**LOG[4], "level": "warning", "text": "<b>slow</b>"}
    chat.server.change(log={"lines": [*LOG[:4], loud], "older": True})
    chat.pass_time(3)
    expect(lines).to_have_text(["page 3", "page 4", "<b>slow</b>"])
    expect(chat.card.locator(".facts .log li").last).to_contain_text("warning")
    chat.press("More")
    chat.press("History")
    expect(chat.card.get_by_role("region", name="Log").locator("li")).to_have_count(5)
    expect(chat.card.locator(".panel")).to_contain_text("Older lines are left out")


def test_an_outcome_is_announced_when_it_comes(chat: Chat) -> None:
    chat.show_task(a_task(due=NOW))
    chat.server.change(state="succeeded", last_run={"state": "succeeded", "ended": stamp(NOW)})
    chat.pass_time(3)

    expect(chat.state()).to_have_text("Reminded")
    expect(chat.said()).to_have_text("Call John about the lease: Reminded")


# --- words for people -------------------------------------------------------------------------------------------------


SENTENCE = "pool gpu: it needs 2, 1 of 4 are free; held by t_00000000000c «Train»"


def waits_on(chat: Chat) -> Locator:
    return chat.card.locator(".fact", has=chat.card.locator(".icon-hourglass")).locator("dd")


WAITS: list[tuple[dict[str, Any], str]] = [
    ({"kind": "pool", "pool": "gpu"}, "Waits for gpu to be free"),
    ({"kind": "pool", "pool": "gpu", "until": 2}, "Waits for gpu to be freein 2 hours"),
    ({"kind": "pool_stopped", "pool": "gpu", "until": -1}, "Waits because gpu requested a pausesoon"),
    ({"kind": "attempt", "until": 1, "after": "no such host"}, "Tries again in 1 hourno such host"),
    ({"kind": "step", "until": 2, "after": "not there yet"}, "Continues in 2 hoursnot there yet"),
    ({"kind": "nobody"}, "Nothing is running that could do this now"),
    ({"kind": "task", "task": "t_0", "title": "Fetch", "state": "running"}, "Waits for Fetch to endRunning"),
    ({"kind": "task"}, "Waits for another task to end"),
]
"""Each kind of wait, with its words."""


def test_the_wait_of_a_task_reads_as_a_sentence(chat: Chat) -> None:
    for wait, said in WAITS:
        until = {"until": stamp(NOW + timedelta(hours=wait["until"]))} if "until" in wait else {}
        chat.show_task(a_task(due=EARLIER, state="ready", waiting_for=[SENTENCE], waits=[{**wait, **until}]))
        expect(waits_on(chat)).to_have_text(said)


@pytest.mark.parametrize("waits", [None, [{"kind": "comet"}]], ids=["none", "newer"])
def test_a_sentence_unknown_to_the_card_is_shown_as_the_server_says_it_without_ids(chat: Chat, waits: Any) -> None:
    chat.show_task(a_task(due=EARLIER, state="ready", waiting_for=[SENTENCE], waits=waits), locale="de-DE")
    said = "Wartet auf pool gpu: it needs 2, 1 of 4 are free; held by another task «Train»"
    expect(waits_on(chat)).to_have_text(said)


def test_each_reason_is_said_in_the_language_of_the_reader(chat: Chat) -> None:
    """Every kind at once, in German: not a word of the server's sentences is left."""
    until = stamp(NOW + timedelta(hours=2))
    waits = [{"kind": kind, "pool": "gpu", "event": "paid", "until": until} for kind in WaitKind]
    sentences = [f"{kind} t_00000000000c" for kind in WaitKind]
    chat.show_task(a_task(due=EARLIER, state="ready", waiting_for=sentences, waits=waits), locale="de-DE")

    german = catalogue.read(build.SOURCES / build.LANGUAGES)["de"]
    said = [str(german[f"wait.{kind}"]).format(pool="gpu", event="paid", time="in 2 Stunden") for kind in WaitKind]
    ends = {"approval": "Endet {}", "event": "Endet {}", "stop": "Endet {}", "blocked": "Wird {} wieder geprüft"}
    times = [ends.get(kind, "{}").format("in 2 Stunden") for kind in WaitKind]
    expected = [text if "in 2 Stunden" in text else text + time for text, time in zip(said, times, strict=True)]
    expected[list(WaitKind).index(WaitKind.RESUME)] = "Pausiert bis Sa., 21. Nov., 18:00"  # it has words with its time
    expect(waits_on(chat).locator("li")).to_have_text(expected)


def test_a_card_names_no_inbox_no_local_no_tool_and_no_id(chat: Chat) -> None:
    warning = "t_00000000000c has the same title and time; cancel one of them if this is unintended"
    effect = "This only reminds; nothing does the work. Actions that do work here: webhook."
    chat.show_task(a_task(owner="local", warnings=[warning], effect=effect))
    text = chat.card.locator("main").inner_text()

    assert "another task has the same title" in text
    assert "This only reminds; nothing does the work." in text
    for word in ("inbox", "local", "t_0", "webhook"):
        assert word not in text, word


# --- undo -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("press", "did"),
    [
        (["More", "Pause"], "Paused"),
        (["More", "Skip next"], "Next occurrence skipped"),
        (["More", "Run now"], "Started"),
        (["Done"], "Marked as done"),
        (["Cancel"], "Cancelled"),
    ],
)
def test_every_action_can_be_undone(chat: Chat, press: list[str], did: str) -> None:
    chat.show_task(soon(repeat=weekly(), unread=UNREAD))
    for name in press:
        chat.press(name)
    bar = chat.card.locator(".undo")
    expect(bar).to_contain_text(f"{did}. Undo within 30 s")

    chat.press("Undo")
    expect(bar).to_have_count(0)
    expect(chat.state()).to_have_text("Scheduled")
    expect(chat.button("Done")).to_be_visible()
    undo = {"task_id": CALL_JOHN, "action": "undo", "revision": 4, "undo": UNDO}
    assert chat.calls()[-1] == ("act_on_task", undo)


@pytest.mark.parametrize("moved", [False, True])
def test_a_snooze_and_a_move_can_be_undone(chat: Chat, moved: bool) -> None:
    chat.show_task(soon())
    chat.press("Move" if moved else "Snooze")
    if moved:
        chat.card.get_by_label("New time").fill("2026-11-24T10:30")
        chat.press("Save")
    else:
        chat.choice("10 min").click()
    expect(chat.card.locator(".undo")).to_contain_text("Moved. Undo" if moved else "Snoozed. Undo")

    chat.press("Undo")
    expect(chat.card.locator(".relative")).to_have_text("in 30 minutes")


def test_an_undo_that_the_world_overtook_shows_the_servers_sentence(chat: Chat) -> None:
    chat.show_task(soon())
    chat.press("Cancel")
    expect(chat.button("Undo")).to_be_visible()
    chat.server.refuse = "This task has run since, so that change stays."
    chat.press("Undo")
    expect(chat.card.get_by_role("alert")).to_have_text("This task has run since, so that change stays.")
    expect(chat.button("Undo")).to_have_count(0)


def test_a_press_that_another_card_made_already_is_not_said_to_be_final(chat: Chat) -> None:
    said = "This repeats an earlier call, so nothing was changed."
    repeated: dict[str, Any] = {"warnings": [said], "words": {"sentences": {said: {"kind": "repeated_call"}}}}
    chat.show_task(a_task(due=EARLIER, state="running", attempt=1, **repeated))
    chat.press("Cancel")
    expect(chat.state()).to_have_text("Stopping")
    expect(chat.card.get_by_text("This cannot be undone")).to_have_count(0)


def test_a_press_that_changed_nothing_is_not_said_to_have_changed_something(chat: Chat) -> None:
    said = "it already has these values; nothing was changed"
    same: dict[str, Any] = {"warnings": [said], "words": {"sentences": {said: {"kind": "unchanged"}}}}
    chat.show_task(a_task(due=EARLIER, state="running", attempt=1, **same))
    chat.press("Cancel")
    expect(chat.said()).to_have_text("It was like that already; nothing was changed.")
    expect(chat.card.get_by_text("This cannot be undone")).to_have_count(0)
    assert chat.told_model() == []


def test_a_final_change_says_so(chat: Chat) -> None:
    chat.show_task(a_task(due=EARLIER, state="running", attempt=1))
    chat.press("Cancel")
    expect(chat.card.get_by_text("Stop requested. This cannot be undone.")).to_be_visible()


def test_the_card_says_until_when_quiet_hours_hold_a_delivery(chat: Chat) -> None:
    held = {"channel": "webhook:team", "state": "pending", "held_until": stamp(NOW + timedelta(hours=9))}
    chat.show_task(a_task(state="failed", delivery=held))
    expect(chat.card.locator(".facts")).to_contain_text("Will be delivered to webhook:team")
    expect(chat.card.locator(".facts")).to_contain_text("Held until")
    expect(chat.card.locator(".facts")).to_contain_text("(quiet hours)")


def test_labels_have_a_word_of_their_own(chat: Chat) -> None:
    chat.show_task(a_task(owner="local", labels=["home", "tax"]))
    expect(chat.card.locator(".facts")).to_contain_text("Labelshometax")
    expect(chat.card.locator(".facts")).not_to_contain_text("Created by")

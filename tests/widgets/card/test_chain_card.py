"""The card of a chain: its progress, each step with its state, and buttons for all of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.widgets.chat import Chat
from tests.widgets.sample import NOW, a_task, stamp
from tests.widgets.sources.test_languages import READERS, words

pytestmark = pytest.mark.browser

CHAIN = "c_7k3m9qx2w4hb"
STATES = {
    "fetch": "succeeded",
    "clean": "failed",
    "load": "running",
    "report": "waiting",
    "mail": "waiting",
}


def a_chain(**parts: Any) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [
        {"name": name, "id": f"t_{name:0<12}", "action": "webhook", "state": state, "when": stamp(NOW)}
        for name, state in STATES.items()
    ]
    steps[1]["why"] = "HTTP 404 from https://example.org/rows"
    chain = {"id": CHAIN, "title": "Weekly report", "done": 1, "of": len(steps), "failed": ["clean"], "steps": steps}
    given = {
        "id": CHAIN,
        "title": "Weekly report",
        "action": "chain",
        "state": "running",
        "revision": 1,
        "delivery": None,
    }
    return a_task(due=NOW - timedelta(minutes=2), **{**given, "chain": chain, **parts})


def test_a_chain_shows_its_progress_and_each_step_with_its_state_and_why_one_failed(chat: Chat) -> None:
    chat.show_task(a_chain())
    steps = chat.card.locator(".chain li")
    assert [text.split("\n")[0] for text in steps.all_inner_texts()] == [
        "fetch Succeeded", "clean Failed", "load Running", "report Waiting", "mail Waiting",
    ]  # fmt: skip
    expect(steps.nth(1)).to_contain_text("HTTP 404 from https://example.org/rows")
    expect(chat.card.locator(".facts")).to_contain_text("1 of 5 steps done")


def test_a_step_that_is_unverified_or_paused_says_so(chat: Chat) -> None:
    chain = a_chain()["chain"]
    chain["steps"][0]["unverified"] = "order is missing"
    chain["steps"][3] |= {"state": "scheduled", "paused": True}
    chat.show_task(a_chain(chain=chain))
    steps = chat.card.locator(".chain li")
    assert steps.nth(0).inner_text().split("\n") == ["fetch Done, but not what was expected", "order is missing"]
    assert steps.nth(3).inner_text() == "report Paused"


def test_a_paused_chain_says_until_when(chat: Chat) -> None:
    until = stamp(NOW + timedelta(hours=5))
    waits: dict[str, Any] = {"waiting_for": ["paused until then"], "waits": [{"kind": "resume", "until": until}]}
    chat.show_task(a_chain(state="scheduled", paused=True, paused_until=until, **waits))
    expect(chat.card.locator("body")).to_contain_text("Paused until")


def test_its_buttons_change_all_of_it(chat: Chat) -> None:
    chat.show_task(a_chain())
    assert chat.card.get_by_role("group").get_by_role("button").all_inner_texts() == [
        *("Run again: clean", "Move", "Cancel", "Pause"),
    ]
    chat.press("Cancel")
    assert chat.calls()[-1] == ("cancel_task", {"task_id": CHAIN, "revision": 1})


def test_the_last_generation_of_one_that_goes_on_runs_again_where_it_failed(chat: Chat) -> None:
    steps = [{**step, "state": "scheduled", "why": None} for step in a_chain()["chain"]["steps"]]
    chain = {"id": CHAIN, "title": "Weekly report", "done": 0, "of": len(steps), "steps": steps}
    last = {"state": "failed", "ended": stamp(NOW - timedelta(minutes=2)), "summary": "clean failed: HTTP 404"}
    again: dict[str, Any] = {"state": "scheduled", "chain": chain, "repeat": {"rule": "hourly", "text": "every hour"}}
    chat.show_task(a_chain(**again, last_run=last))
    expect(chat.card.locator(".facts")).to_contain_text("clean failed: HTTP 404")
    chat.press("Run again")
    assert chat.calls()[-1] == ("act_on_task", {"task_id": CHAIN, "action": "run_now", "revision": 1})
    chat.show_task(a_chain(**again, last_run={**last, "state": "succeeded"}))
    expect(chat.card.get_by_role("button", name="Run again")).to_have_count(0)


def test_a_step_says_which_chain_it_is_of(chat: Chat) -> None:
    step = {"id": CHAIN, "title": "Weekly report", "step": "load", "done": 1, "of": 5}
    chat.show_task(a_task(chain=step))
    expect(chat.card.locator(".facts")).to_contain_text("Weekly report, load")


@pytest.mark.parametrize(("theme", "width"), [("light", 520), ("dark", 320)])
def test_nothing_of_it_is_wider_than_its_frame(chat: Chat, theme: str, width: int) -> None:
    chat.page.set_viewport_size({"width": width + 42, "height": 900})
    chat.page.locator("#chat").evaluate("(stage, theme) => (stage.className = `stage ${theme}`)", theme)
    chat.show_task(a_chain(), theme=theme)
    expect(chat.card.locator(".chain li")).to_have_count(len(STATES))
    wider = "() => document.documentElement.scrollWidth > document.documentElement.clientWidth"
    assert chat.card.evaluate(wider) is False


@pytest.mark.parametrize("language", READERS)
def test_a_deadline_that_counts_from_the_last_step_says_so(chat: Chat, language: str) -> None:
    later = {"text": "2 h after its last step can start", "type": "soft", "after": "2 h"}
    chat.show_task(a_chain(relative_deadline=later), locale=READERS[language])
    said = words(language, "deadline.after_last").replace("{time}", "2 h")
    expect(chat.card.locator("[data-deadline]")).to_have_text(said)


def test_a_chain_that_failed_says_why_at_its_steps_alone_and_without_ids(chat: Chat) -> None:
    chain = a_chain()["chain"]
    chain["steps"][2] |= {"state": "failed", "why": "it did not run: t_pckfrrx51mc9 (Weekly report: clean) failed"}
    chat.show_task(a_chain(chain=chain, state="failed", last_run={"state": "failed", "ended": stamp(NOW)}))
    expect(chat.card.locator("[data-failure]")).to_have_count(0)
    expect(chat.card.locator(".chain li").nth(2)).to_contain_text(
        "it did not run: another task (Weekly report: clean) failed"
    )


def test_a_run_that_stops_elsewhere_says_when_it_ends(chat: Chat) -> None:
    wait = {"kind": "stop", "until": stamp(NOW + timedelta(seconds=7))}
    chat.show_task(a_task(state="running", attempt=1, cancel_requested=True, waiting_for=["its worker"], waits=[wait]))
    expect(chat.card.locator(".facts")).to_contain_text("Waits for it to stopEnds in 7 seconds")

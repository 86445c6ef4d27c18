"""Pages that stay open while others work: what was said stays, and nobody is disturbed in the middle of a form."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.access.api_key import ApiKey
from duetime.scheduler.principal import Principal
from duetime.scheduler.task import State
from duetime.server.auth.key_format import KeyText
from playwright.sync_api import Browser, Page, Route, expect

from tests.builders import settlement, started
from tests.flow.admin.browser.conftest import Window, opened
from tests.flow.admin.served import Served, served

pytestmark = pytest.mark.browser

IS_LIVE = "x-duetime-live"
ANSWERED = """() => {
  const frames = (then) => requestAnimationFrame(() => requestAnimationFrame(then));
  window.answered = new Promise((then) =>
    document.addEventListener("htmx:before:swap", () => frames(then), {once: true}));
}"""
"""Begins to wait until the page has had two frames to show an answer, or to leave it out."""

TWO_CLICKS = """(button) => {
  const sent = [];
  window.addEventListener("submit", (event) => sent.push(!event.defaultPrevented));
  button.click();
  button.click();
  return sent;
}"""
"""Clicks twice before the browser sends anything; returns which of the two are to be sent. It sends the last one."""


def later(site: Served, title: str, **values: Any) -> str:
    return site.app.scheduler.schedule(title, when="in 2 hours", **values).record.task.id


def letter(site: Served, title: str) -> None:
    store = site.app.store
    claim = started(store, store.now(), title=title, tenant="local")
    store.claims.settle([settlement(claim, State.FAILED, reason="no food", dead_letter=True)])


def test_a_notice_stays_until_it_is_dismissed_though_the_page_renews_itself(
    empty_window: Window, empty_site: Served
) -> None:
    page = empty_window.page
    later(empty_site, "Feed the cat")
    empty_window.open("/runs?state=to_come")
    page.get_by_label("Pick Feed the cat").check()
    page.get_by_role("button", name="Cancel tasks").click()
    page.get_by_role("button", name="Cancel 1 task").click()
    expect(page.get_by_role("status")).to_have_text("Cancelled 1.")
    later(empty_site, "Feed the dog")
    expect(page.get_by_role("link", name="Feed the dog")).to_be_visible()  # by itself
    expect(page.get_by_role("status")).to_have_text("Cancelled 1.")
    page.get_by_role("searchbox").press_sequentially("bird")
    expect(page.get_by_text("Nothing matches")).to_be_visible()
    expect(page.get_by_role("status")).to_have_text("Cancelled 1.")
    assert empty_window.violations() == []
    page.get_by_role("button", name="Dismiss").click()
    expect(page.get_by_role("status")).to_have_count(0)


def test_an_undo_stays_until_it_is_used(empty_window: Window, empty_site: Served) -> None:
    page = empty_window.page
    letter(empty_site, "Feed the cat")
    empty_window.open("/dead")
    page.get_by_label("Pick Feed the cat").check()
    page.get_by_role("button", name="Replay", exact=True).click()
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Replayed 1.")
    letter(empty_site, "Feed the dog")
    expect(page.get_by_role("link", name="Feed the dog")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("status")).to_have_text("Taken back: the replay of 1 task.")
    expect(page.get_by_role("link", name="Feed the cat")).to_be_visible()


def test_a_form_that_is_opened_while_the_page_asks_for_itself_stays_open(
    empty_window: Window, empty_site: Served
) -> None:
    page, held = empty_window.page, list[Route]()
    task = later(empty_site, "Feed the cat")
    empty_window.open(f"/tasks/{task}")

    def hold(route: Route) -> None:
        if IS_LIVE in route.request.headers and not held:
            held.append(route)
        else:
            route.continue_()

    page.route("**/admin/**", hold)
    with page.expect_request(lambda request: IS_LIVE in request.headers):
        empty_site.app.scheduler.reschedule(task, priority="high")
    page.get_by_text("Reschedule", exact=True).click()
    page.get_by_label("When").press_sequentially("tom")
    page.evaluate(ANSWERED)
    held[0].continue_()
    page.evaluate("() => window.answered")
    page.keyboard.type("orrow 9am")
    expect(page.get_by_label("When")).to_have_value("tomorrow 9am")
    page.get_by_label("When").press("Escape")
    page.get_by_text("Reschedule", exact=True).click()
    expect(page.get_by_text("high", exact=True)).to_be_visible()  # what was held back comes now


def test_typed_input_comes_back_after_a_login_in_between(browser: Browser, tmp_path: Path) -> None:
    with ExitStack() as stack:
        site = stack.enter_context(served(f"sqlite:///{tmp_path}/duetime.db", auth=("keys",)))
        by = Principal("acme", "ann")
        task = site.app.scheduler.schedule("Feed the cat", when="in 2 hours", by=by).record.task.id
        page, key = stack.enter_context(contextmanager(opened)(browser, site, {})).page, new_key(site, "acme")
        page.goto(f"{site.url}/admin/tasks/{task}")
        log_in(page, key)
        page.get_by_text("Cancel", exact=True).click()
        page.get_by_label("Reason (optional)").fill("it ran away")
        page.context.clear_cookies()
        page.get_by_role("button", name="Cancel the task").click()
        expect(page.get_by_text("nothing was done")).to_be_visible()
        log_in(page, key)
        expect(page.get_by_label("Reason (optional)")).to_have_value("it ran away")
        page.get_by_role("button", name="Cancel the task").click()
        expect(page.get_by_role("status")).to_have_text("Cancelled.")
        expect(page.get_by_text("it ran away")).to_be_visible()


def new_key(site: Served, tenant: str) -> str:
    text, store = KeyText.new(), site.app.store
    store.api_keys.add(ApiKey(text.id, tenant, "ann", ("admin",), "test", text.digest, store.now()))
    return text.text


def log_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Log in").click()


def test_a_second_click_sends_a_form_no_second_time(empty_window: Window, empty_site: Served) -> None:
    store, page = empty_site.app.store, empty_window.page
    claim = started(store, store.now(), title="Feed the cat", tenant="local")
    store.claims.settle([settlement(claim)])
    empty_window.open(f"/tasks/{claim.task.id}")
    page.get_by_text("Run now", exact=True).first.click()
    assert page.get_by_role("button", name="Run now").evaluate(TWO_CLICKS) == [True, False]
    expect(page.get_by_role("status")).to_have_text("It runs now.")


def test_a_change_of_a_pool_by_others_appears_by_itself_and_one_of_the_policy_is_taken_back(
    empty_window: Window, empty_site: Served
) -> None:
    registry, page = empty_site.app.registry, empty_window.page
    empty_window.open("/pools")
    expect(page.get_by_text("Nothing is limited yet")).to_be_visible()
    registry.set("gpu", {"capacity": 2})
    expect(page.get_by_role("link", name="gpu")).to_be_visible()

    first, _second = (registry.policies.set({"patience": {"normal": text}}) for text in ("2 minutes", "4 minutes"))
    empty_window.open("/policy")
    page.get_by_role("button", name="Return to it: version 1").click()
    expect(page.get_by_role("heading", name="Returning to version 1 was tried")).to_be_visible()
    assert registry.policies.refresh().version == 2, "a change is shown before it is made"
    page.get_by_role("button", name="Return to version 1", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("Version 3 is in force: patience.normal: 240 -> 120")
    expect(page.get_by_label("patience of normal")).to_have_value("120")
    assert registry.policies.refresh().policy == first.policy


@pytest.mark.parametrize("options", [{"java_script_enabled": False}], ids=str)
def test_without_scripts_rows_are_picked_and_changed(
    empty_window: Window, empty_site: Served, options: dict[str, Any]
) -> None:
    page = empty_window.page
    later(empty_site, "Feed the cat")
    page.goto(f"{empty_window.url}/admin/runs?state=to_come")
    expect(page.get_by_role("button", name="Cancel tasks")).to_be_hidden()
    expect(page.get_by_label("Pick all")).to_be_hidden()
    page.get_by_label("Pick Feed the cat").check()
    page.get_by_role("button", name="Cancel tasks").click()
    page.get_by_role("button", name="Cancel 1 task").click()
    expect(page.get_by_role("status")).to_have_text("Cancelled 1.")
    letter(empty_site, "Feed the dog")
    page.goto(f"{empty_window.url}/admin/dead")
    page.get_by_label("Pick Feed the dog").check()
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_role("heading", name="Replay 1 dead letter?")).to_be_visible()


def test_a_long_reason_leaves_the_titles_of_the_audit_their_line(empty_window: Window, empty_site: Served) -> None:
    for n in range(3):
        later(empty_site, f"Page the person on call: disk {n} is full")
    scheduler = empty_site.app.scheduler
    scheduler.cancel(later(empty_site, "Import"), reason="the supplier has sent a new statement. " * 3)
    empty_window.page.set_viewport_size({"width": 1280, "height": 800})
    empty_window.open("/audit?list=tasks")
    lines: list[int] = empty_window.page.locator("tbody .title a").evaluate_all(
        "found => found.map(each => each.getClientRects().length)"
    )
    assert lines == [1] * 5


def test_a_filter_keeps_the_picks_of_the_rows_that_it_keeps_and_picks_no_others(
    empty_window: Window, empty_site: Served
) -> None:
    page, titles = empty_window.page, [f"Walk dog {number}" for number in range(12)]
    for title in (*titles, "Feed cat 1", "Feed cat 2"):  # cats are further down than a row is looked for
        later(empty_site, title)
    empty_window.open("/runs?state=to_come")
    for title in (titles[0], "Feed cat 2"):
        page.get_by_label(f"Pick {title}", exact=True).check()
    page.get_by_role("searchbox").press_sequentially("cat")
    expect(page.locator("tbody tr[data-row]")).to_have_count(2)
    expect(page.get_by_text("1 picked")).to_be_visible()
    expect(page.get_by_label("Pick Feed cat 2")).to_be_checked()

"""The admin page in a real browser: its policy, its keys, its width, and who can use it."""

from __future__ import annotations

import re
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from duetime.scheduler.history.runs import RunFilter
from duetime.scheduler.rules.order import KeyFacts
from duetime.scheduler.rules.policies.decision import Contender, Look, PoolSeen
from duetime.scheduler.rules.policies.decision_record import Decision
from duetime.scheduler.task import State
from duetime.server.admin.pages.timeline import NARROW_TICK_COUNT, TICK_COUNT
from playwright.sync_api import Browser, expect

from tests.builders import settlement, started
from tests.flow.admin.browser.conftest import MAX_ROW_COUNT, Window, opened
from tests.flow.admin.identity_provider import CLIENT_ID, CLIENT_SECRET, serving_provider
from tests.flow.admin.served import URL, Served, served

pytestmark = pytest.mark.browser

MAX_HEAD_PX = 80
"""With its menu closed, the head of a narrow window is one row, however short the page is."""

PAGES = [
    "",
    "/runs",
    "/runs?state=failed&since=yesterday&label=import",
    "/runs?state=to_come",
    "/dead",
    "/dead?close=replay",
    "/schedules",
    "/timeline?window=24h",
    "/cost",
    "/cost?by=task&since=last+monday",
    "/audit",
    "/audit?list=tasks",
    "/audit/verify",
]
NO_ANSWER_TO_A_NEW_SIZE = """
addEventListener("resize", (event) => event.stopImmediatePropagation(), true);
window.ResizeObserver = class { observe() {} unobserve() {} disconnect() {} };
"""
FILLED = """() => {
  const [chart, drawn] = [".chart", ".chart .uplot"].map((name) => document.querySelector(name));
  return chart.clientWidth === drawn.clientWidth;
}"""
OF_COLOURS = ("color-contrast", "link-in-text-block")
SCHEMES: dict[Literal["light", "dark"], tuple[str, ...]] = {"light": (), "dark": OF_COLOURS}
OF_OPERATORS = ["/pools", "/pools/gpu", "/workers", "/policy"]
AMONG_MANY = {
    "": "the newest alone are counted",
    "/runs": "50 runs on this page",
    "/dead?close=replay": "dead letters?",
    "/schedules": "50 schedules on this page",
    "/timeline?window=24h": "Only the latest",
    "/cost": "Each day",
    "/audit": "Hash chain",
    "/audit?list=tasks": "50 entries on this page",
    "/pools": "openai",
    "/workers": "Workers",
    "/policy": "Numbers in force",
}
"""Pages that are looked at among many tasks too, each with what it says there."""


MANY_TASKS_ROW_COUNT = 12
"""Rows that axe looks at there: all of 30 tasks are looked at elsewhere, and the rest comes from the same template."""


def check(window: Window, *, wide: bool = True) -> None:
    """Nothing keeps anybody from using the page, light or dark, wide or narrow, and it is never wider than its window.

    In a narrow one no table is either: none of them has to be moved sideways. Colours are looked at in the narrow
    page; the test among many tasks looks at all of the wide ones that it has.
    """
    if wide:
        assert window.violations(but=OF_COLOURS) == []
    for width in (800, 1400, 320):
        window.page.set_viewport_size({"width": width, "height": 800})
        assert (width, max(window.overflow, 0)) == (width, 0)
    _check_schemes(window)
    assert window.sideways() == []
    assert window.head_height < MAX_HEAD_PX


def _check_schemes(window: Window, *, rows: int = MAX_ROW_COUNT) -> None:
    """Check everything in light colours, and of the dark ones what depends on colours; of a table the first `rows`."""
    for scheme, rules in SCHEMES.items():
        window.page.emulate_media(color_scheme=scheme)
        assert (scheme, window.violations(rules, rows=rows)) == (scheme, [])


@pytest.mark.parametrize("path", [*PAGES, *OF_OPERATORS])
def test_anybody_can_use_a_page(window: Window, path: str) -> None:
    window.open(path)
    check(window, wide=path not in AMONG_MANY)


def test_a_page_is_never_wider_than_its_window_though_its_scripts_have_not_answered_yet(window: Window) -> None:
    """A window that became narrow shows what was drawn for the wide one until the scripts have had their turn."""
    window.page.add_init_script(NO_ANSWER_TO_A_NEW_SIZE)
    for path in (*PAGES, *OF_OPERATORS):
        window.page.set_viewport_size({"width": 1400, "height": 800})
        window.open(path)
        window.page.set_viewport_size({"width": 320, "height": 800})
        assert (path, max(window.overflow, 0)) == (path, 0)


def test_a_chart_fills_its_place_again_when_the_window_has_another_width(window: Window) -> None:
    window.open("/cost")
    for width in (320, 1400):
        window.page.set_viewport_size({"width": width, "height": 800})
        window.page.wait_for_function(FILLED)


def test_the_charts_of_the_overview_say_values_in_their_unit_below_the_pointer(window: Window) -> None:
    window.open("")
    for title, value in (("Longest wait", r"normal [\d.,]+ (ms|s|min|h)$"), ("Missed deadlines", r"[a-z]+ \d+$")):
        part = window.page.get_by_role("heading", name=title, exact=True).locator("xpath=..")
        chart = part.locator(".u-over")
        box = chart.bounding_box()
        assert box is not None
        legends = set()
        for step in range(24):
            chart.hover(position={"x": box["width"] * (step + 0.5) / 24, "y": 40})
            legends |= {text.strip() for text in part.locator(".legend li").all_inner_texts()}
        assert any(re.fullmatch(value, text) for text in legends), legends


def test_a_narrow_time_line_shows_its_fewer_ticks_alone(window: Window) -> None:
    window.open("/timeline?window=24h")
    for width, shown in ((1280, TICK_COUNT), (320, NARROW_TICK_COUNT)):
        window.page.set_viewport_size({"width": width, "height": 800})
        expect(window.page.locator(".line-ticks span:visible")).to_have_count(shown)


@pytest.mark.parametrize("state", ["failed", "ready", "to_come", "succeeded"])
def test_anybody_can_use_the_page_of_a_run(window: Window, state: str) -> None:
    window.open(f"/runs?state={state}")
    window.page.locator("tbody tr[data-row] th a").first.click()
    expect(window.page.get_by_role("heading", name="Payload")).to_be_visible()
    check(window)


def test_anybody_can_use_a_recorded_decision_and_a_shadow(window: Window, site: Served) -> None:
    store, at = site.app.store, site.app.store.now()
    asked = (RunFilter(states=(state,)) for state in (State.SUCCEEDED, State.READY))
    (run,), (waiting,) = (site.app.scheduler.past.runs(each, limit=1).runs for each in asked)
    ms = at.timestamp() * 1000
    head, other = Contender(run.id, ms - 4000, "local"), Contender("r_7k3m9qx2w4hb00000000", ms + 90_000, "local")
    look = Look(ms, 0, 4, (0.0,) * 5, (2.0,) * 5, (None, None, head, None, other), 3, head, (PoolSeen("gpu", 1, 2),))
    facts = {head.run_id: KeyFacts(at - timedelta(minutes=6), None, timedelta(seconds=1), late=False, cost=0.5)}
    taken = [Decision(f"d_{each.id}", at, "local", each.task_id, each.id, "w1", look, facts) for each in (run, waiting)]
    store.decisions.add(taken)
    site.app.registry.policies.shadow.set({"patience": {"normal": "1 h"}}, reason="to compare")
    try:
        window.open("/policy")
        expect(window.page.get_by_role("button", name="Put the shadow in force")).to_be_visible()
        expect(window.page.get_by_role("cell", name=" later")).to_be_visible()
        check(window)
    finally:
        site.app.registry.policies.shadow.remove()
    window.page.set_viewport_size({"width": 1280, "height": 900})
    window.open(f"/runs/{run.id}")
    expect(window.page.get_by_role("heading", name="Why it started when it did")).to_be_visible()
    window.page.get_by_text("taken by a worker").click()
    expect(window.page.get_by_text("Pool gpu: 1 needed, 2 free.")).to_be_visible()
    check(window)
    window.open(f"/runs/{waiting.id}")
    expect(window.page.get_by_role("heading", name="Why it has not started")).to_be_visible()


def test_anybody_can_use_the_pages_of_an_empty_store(empty_window: Window) -> None:
    """It has nothing that a full one has not, but for the sentences that say so."""
    for path in (*PAGES, *OF_OPERATORS[::2]):
        empty_window.page.set_viewport_size({"width": 1280, "height": 900})
        empty_window.open(path)
        assert (path, max(empty_window.overflow, 0)) == (path, 0)
        empty_window.page.set_viewport_size({"width": 320, "height": 800})
        _check_schemes(empty_window)
        assert (path, max(empty_window.overflow, 0), empty_window.sideways()) == (path, 0, [])
        assert empty_window.head_height < MAX_HEAD_PX


def test_among_a_hundred_thousand_tasks_every_page_is_as_calm_as_among_thirty(full_window: Window) -> None:
    page = full_window.page
    for path, shown in AMONG_MANY.items():
        full_window.open(path)
        expect(page.locator("#content")).to_contain_text(shown)
        _check_schemes(full_window, rows=MANY_TASKS_ROW_COUNT)
        page.set_viewport_size({"width": 320, "height": 800})
        assert (path, max(full_window.overflow, 0), full_window.sideways()) == (path, 0, [])
        page.set_viewport_size({"width": 1280, "height": 900})
    full_window.open("/runs")
    page.get_by_role("link", name="Next page").click()
    expect(page.get_by_role("link", name="First page")).to_be_visible()
    page.get_by_role("searchbox").press_sequentially("disk 1124")
    expect(page.locator("tbody tr[data-row]").first).to_contain_text("disk 1124 is full")
    page.locator("tbody tr[data-row] th a").first.click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("disk 1124 is full")


def test_the_list_is_used_with_the_keyboard_alone(window: Window) -> None:
    window.open("/runs")
    keys = window.page.keyboard
    keys.press("/")
    expect(window.page.get_by_role("searchbox")).to_be_focused()
    keys.press("Escape")
    keys.press("j")
    keys.press("j")
    keys.press("k")
    first = window.page.locator("tbody tr[data-row]").first
    expect(first).to_have_class("chosen")
    keys.press("x")
    expect(first.get_by_role("checkbox")).to_be_checked()
    title = first.locator("th a").first.inner_text()
    keys.press("Enter")
    expect(window.page.get_by_role("heading", level=1)).to_have_text(title)
    keys.press("?")
    expect(window.page.get_by_role("dialog")).to_be_visible()
    keys.press("Escape")
    keys.press("g")
    keys.press("o")
    expect(window.page.get_by_role("heading", level=1)).to_have_text("Overview")


def test_a_filter_stands_in_the_address_and_the_back_key_undoes_it(window: Window) -> None:
    window.open("/runs")
    window.page.get_by_role("searchbox").press_sequentially("invoice")
    expect(window.page.locator("tbody")).not_to_contain_text("Summarise")
    expect(window.page).to_have_url(re.compile(r"/admin/runs\?q=invoice$"))
    expect(window.page.get_by_role("searchbox")).to_be_focused()
    window.page.get_by_label("Any tier").select_option("low")
    expect(window.page.get_by_text("Nothing matches")).to_be_visible()
    window.page.go_back()
    expect(window.page.locator("tbody")).to_contain_text("Send invoice")


def test_the_sections_are_of_the_tenant_that_the_page_shows(window: Window) -> None:
    window.open("/runs?tenant=local")
    page = window.page
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.wait_for_url("**/admin/schedules?tenant=local")
    window.open("/runs?tenant=local")
    page.get_by_role("searchbox").fill("import")
    page.wait_for_url("**/admin/runs?q=import")  # whoever sees one tenant alone has no field for it
    expect(page.get_by_role("link", name="Schedules")).to_have_attribute("href", re.compile("/admin/schedules$"))


@pytest.mark.parametrize("options", [{"timezone_id": "America/St_Johns"}], ids=str)
def test_times_are_in_the_zone_of_the_browser_from_the_first_page_on(window: Window, options: dict[str, Any]) -> None:
    window.open("")
    expect(window.page.get_by_text("times in America/St_Johns")).to_be_attached()
    window.open("/runs")
    shown = window.page.locator("tbody time").first
    wall = window.page.evaluate(
        "at => new Date(at).toLocaleTimeString('en-GB', {timeZone: 'America/St_Johns'})",
        shown.get_attribute("datetime"),
    )
    assert wall[:5] in shown.inner_text()
    assert re.fullmatch(r"[\d-]{10} [\d:.]{12} UTC", shown.get_attribute("title") or "")


def test_light_and_dark_are_chosen_and_kept(window: Window) -> None:
    window.open("")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    before = window.page.evaluate(ground)
    window.page.get_by_role("button", name="Light or dark").click()
    after = window.page.evaluate(ground)
    assert before != after
    window.open("/runs")
    assert window.page.evaluate(ground) == after


def test_a_person_logs_in_by_the_provider_of_another_site_and_is_on_the_page_at_once(
    browser: Browser, tmp_path: Path
) -> None:
    """The session's cookie is not sent with what another site leads to: the page that goes on by itself is needed."""
    with serving_provider("localhost") as provider, ExitStack() as stack:
        login: dict[str, Any] = {
            "oauth_issuer": provider.url,
            "oidc_client_id": CLIENT_ID,
            "oidc_client_secret": CLIENT_SECRET,
        }
        database = f"sqlite:///{tmp_path}/duetime.db"
        site = stack.enter_context(served(database, auth=("keys",), public_url=URL, **login))
        with contextmanager(opened)(browser, site, {}) as window:
            page = window.page
            page.goto(f"{site.url}/admin/runs?state=failed")
            expect(page.get_by_label("API key")).to_be_visible()
            assert window.violations() == []
            page.get_by_role("link", name=f"Log in with {provider.url.removeprefix('http://')}").click()
            page.get_by_role("link", name="Continue as Ann").click()
            expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
            expect(page).to_have_url(f"{site.url}/admin/runs?state=failed")
            expect(page.locator(".who")).to_contain_text("ann")


def test_an_unfolded_part_stays_so_when_the_page_renews_itself(empty_window: Window, empty_site: Served) -> None:
    store, page = empty_site.app.store, empty_window.page
    for number in range(2):
        claim = started(store, store.now(), title=f"Feed cat {number}", tenant="local")
        store.claims.settle([settlement(claim, State.FAILED, reason="no food", dead_letter=True)])
        if not number:
            empty_window.open("/dead")
            page.get_by_text("1 attempt").click()
    expect(page.locator("tbody tr[data-row]")).to_have_count(2)
    expect(page.locator("tr", has_text="Feed cat 0").locator("li")).to_be_visible()


def test_a_scheduled_task_appears_by_itself(empty_window: Window, empty_site: Served) -> None:
    empty_window.open("/runs?state=to_come")
    expect(empty_window.page.get_by_role("heading", name="Nothing matches")).to_be_visible()
    empty_site.app.scheduler.schedule("Feed the cat", when="in 2 hours")
    expect(empty_window.page.get_by_role("link", name="Feed the cat")).to_be_visible()


def test_a_task_is_cancelled_from_its_page_with_a_reason(empty_window: Window, empty_site: Served) -> None:
    task = empty_site.app.scheduler.schedule("Feed the cat", when="in 2 hours").record.task.id
    empty_window.open(f"/tasks/{task}")
    empty_window.page.get_by_text("Cancel", exact=True).click()
    empty_window.page.get_by_label("Reason (optional)").fill("it ran away")
    empty_window.page.get_by_role("button", name="Cancel the task").click()
    expect(empty_window.page.get_by_role("status")).to_have_text("Cancelled.")
    expect(empty_window.page.get_by_text("it ran away")).to_be_visible()


def test_picked_dead_letters_are_replayed_after_a_question(empty_window: Window, empty_site: Served) -> None:
    store = empty_site.app.store
    for number in range(3):
        claim = started(store, store.now(), title=f"Feed cat {number}", tenant="local")
        store.claims.settle([settlement(claim, State.FAILED, reason="no food", dead_letter=True)])
    page, keys = empty_window.page, empty_window.page.keyboard
    empty_window.open("/runs")
    keys.press("g")
    keys.press("d")
    expect(page.get_by_role("heading", level=1)).to_have_text("Dead letters")
    for key in "jxjx":
        keys.press(key)
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_role("heading", name="Replay 2 dead letters?")).to_be_visible()
    page.get_by_label("Reason (optional)").fill("there is food again")
    page.get_by_role("button", name="Replay", exact=True).click()
    expect(page.get_by_role("status")).to_have_text("Replayed 2.")
    expect(page.locator("tbody tr[data-row]")).to_have_count(1)


def test_picked_runs_are_cancelled_together(empty_window: Window, empty_site: Served) -> None:
    for number in range(3):
        empty_site.app.scheduler.schedule(f"Feed cat {number}", when="in 2 hours")
    empty_window.open("/runs?state=to_come")
    empty_window.page.get_by_label("Pick all").check()
    expect(empty_window.page.get_by_text("3 picked")).to_be_visible()
    empty_window.page.get_by_role("button", name="Cancel tasks").click()
    empty_window.page.get_by_role("button", name="Cancel 3 tasks").click()
    expect(empty_window.page.get_by_role("status")).to_have_text("Cancelled 3.")

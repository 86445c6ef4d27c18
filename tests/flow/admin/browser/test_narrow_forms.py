"""In a narrow window, the form that a button opens is as wide as the window and no wider."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.flow.admin.browser.conftest import Window

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("path", ["/pools", "/pools/gpu"])
def test_the_form_of_an_action_fits_a_narrow_window(window: Window, path: str) -> None:
    window.page.set_viewport_size({"width": 320, "height": 800})
    window.open(path)
    acts = window.page.locator("details.act")
    assert acts.count()
    for number in range(acts.count()):
        acts.nth(number).locator("summary").click()
        expect(acts.nth(number).locator("form")).to_be_visible()
        assert (number, max(window.overflow, 0)) == (number, 0)


def _outside(window: Window, selector: str) -> list[str]:
    """Return the texts of those elements that reach beyond the window, or are cut off where they stand."""
    shown = window.page.locator(selector)
    assert shown.count(), selector
    found: list[str] = shown.evaluate_all(
        """found => found.filter(each => each.getBoundingClientRect().right > window.innerWidth + 0.5
        || (each.tagName !== "INPUT" && each.scrollWidth > each.clientWidth + 1)).map(each => each.textContent)"""
    )
    return found


def test_a_form_to_correct_and_its_problem_fit_a_narrow_window(window: Window) -> None:
    window.page.set_viewport_size({"width": 320, "height": 800})
    window.page.goto(f"{window.url}/admin/runs?state={'bogus' * 30}&q=plants")
    assert _outside(window, "form.after label, form.after input, .said") == []
    assert max(window.overflow, 0) == 0
    window.problems.clear()  # the browser notes an answer of 400


def test_the_names_of_lanes_are_whole_in_a_narrow_window(window: Window) -> None:
    window.page.set_viewport_size({"width": 320, "height": 800})
    window.open("/timeline?window=24h")
    names = window.page.locator(".line-name:not(:empty)")
    names.first.evaluate("each => { each.textContent = 'an_action_of_a_name_that_is_rather_long' }")
    assert _outside(window, ".line-name:not(:empty)") == []
    assert max(window.overflow, 0) == 0


CUT_HINTS = """() => [...document.querySelectorAll("input[placeholder]")].filter((each) => {
    const style = getComputedStyle(each), drawn = document.createElement("canvas").getContext("2d")
    drawn.font = `${style.fontSize} ${style.fontFamily}`
    const room = each.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight)
    return each.checkVisibility() && drawn.measureText(each.placeholder).width > room - 2  // where a caret stands
}).map((each) => each.placeholder)"""


@pytest.mark.parametrize("width", [320, 1280])
def test_the_hints_of_filters_are_whole(window: Window, width: int) -> None:
    window.page.set_viewport_size({"width": width, "height": 800})
    for path in ("/runs", "/dead", "/audit", "/audit?list=tasks", "/cost", "/timeline", "/schedules"):
        window.open(path)
        window.page.locator("details.more").evaluate_all("found => found.forEach((each) => { each.open = true })")
        assert (path, window.page.evaluate(CUT_HINTS)) == (path, [])


def test_the_states_of_runs_are_one_row_of_a_usual_window(window: Window) -> None:
    window.page.set_viewport_size({"width": 1280, "height": 800})
    window.open("/runs")
    tops = window.page.locator(".tabs li").evaluate_all("found => found.map((each) => each.offsetTop)")
    assert (len(tops) > 10, len({*tops})) == (True, 1)

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

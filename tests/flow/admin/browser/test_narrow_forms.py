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

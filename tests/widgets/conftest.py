"""A browser for each file, and a fresh chat with one card for each test."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.widgets.chat import Chat
from tests.widgets.evidence import evidence
from tests.widgets.live import LiveServer
from tests.widgets.sample import NOW
from tests.widgets.tooling import HOST, bundle, find_chromium

PATIENCE_MS = 60_000
"""After which something is taken to hang; no test depends on how long it takes."""

expect.set_options(timeout=PATIENCE_MS)

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync", "--font-render-hinting=none", "--disable-lcd-text"]
UNSEEN = ["WebUIOmniboxPopup", "WebUIOmniboxAimPopup", "WebUIOmniboxFullPopup"]
"""Pages that Chromium loads for the address bar of each window: more than half of what opening a page takes."""

PLAYWRIGHTS = ["AimEnabled", "AvoidUnnecessaryBeforeUnloadCheckSync", "DestroyProfileOnBrowserClose", "HttpsUpgrades"]
PLAYWRIGHTS += ["HttpsFirstBalancedModeAutoEnable", "LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying"]
PLAYWRIGHTS += ["OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning"]
"""Features that Playwright turns off, by a list that the one here replaces."""

QUIET += [f"--disable-features={','.join(UNSEEN + PLAYWRIGHTS)}"]
ONE_PROCESS = ["--disable-site-isolation-trials"]
"""A card's frame lives in its chat's process: between two processes a click is routed by the last *painted* size of
the frame, and is lost when the frame has just grown."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    given: dict[str, object] = getattr(item, "funcargs", {})
    pages = [page for page in given.values() if report.failed and isinstance(page, Page) and not page.is_closed()]
    report.sections += [("the page", evidence(page)) for page in pages]
    return report


@pytest.fixture(scope="session")
def host_script() -> str:
    return bundle()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a browser for the tests of one file: while there is one, no other test could have an event loop."""
    path = find_chromium()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=QUIET + ONE_PROCESS, timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


@pytest.fixture
def sharpness() -> float:
    """Pixels of the picture for each pixel of the page."""
    return 1


@contextmanager
def opened(browser: Browser, **options: Any) -> Iterator[Page]:
    """Open a page in which nothing is in motion, and wait for everything on it as patiently as elsewhere."""
    context = browser.new_context(locale="en-US", reduced_motion="reduce", **options)
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield context.new_page()
    finally:
        context.close()


def begin(page: Page, script: str) -> None:
    """Make a page an empty chat."""
    page.set_content((HOST / "host.html").read_text("utf-8"))
    page.add_script_tag(content=script)


@pytest.fixture
def page(browser: Browser, host_script: str, sharpness: float) -> Iterator[Page]:
    """Give an empty chat whose clock stands still at `NOW`."""
    size = {"width": 560, "height": 800}
    with opened(browser, viewport=size, timezone_id="Asia/Tokyo", device_scale_factor=sharpness) as page:
        page.clock.install(time=NOW - timedelta(days=1))  # from there it runs until it is stopped, and cannot go back
        begin(page, host_script)
        page.clock.pause_at(NOW)
        yield page


@pytest.fixture
def chat(page: Page) -> Iterator[Chat]:
    """Give a chat; whatever the card complained about on the console fails the test."""
    chat = Chat(page)
    yield chat
    assert chat.problems == []


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveServer]:
    with LiveServer(tmp_path).running() as server:
        yield server


@pytest.fixture
def today(browser: Browser, host_script: str, live: LiveServer) -> Iterator[Page]:
    """Give an empty chat whose clock is the real one, as the server's is; it is closed before the server."""
    with opened(browser, viewport={"width": 560, "height": 800}, timezone_id="America/Denver") as page:
        begin(page, host_script)
        yield page

"""A browser for each file, and a fresh chat with one card for each test."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.widgets.chat import Chat
from tests.widgets.live import LiveServer
from tests.widgets.sample import NOW
from tests.widgets.tooling import HOST, bundle, find_chromium

PATIENCE_MS = 60_000
"""After which something is taken to hang; no test depends on how long it takes."""

expect.set_options(timeout=PATIENCE_MS)

QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
QUIET += ["--disable-component-update", "--disable-sync", "--font-render-hinting=none", "--disable-lcd-text"]
ONE_PROCESS = ["--disable-site-isolation-trials"]
"""A card's frame lives in its chat's process: between two processes a click is routed by the last *painted* size of
the frame, and is lost when the frame has just grown."""


@pytest.fixture(scope="session")
def host_script() -> str:
    return bundle()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start a browser for the tests of one file: while there is one, no other test could have an event loop."""
    path = find_chromium()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=QUIET + ONE_PROCESS)
        yield chromium
        chromium.close()


@pytest.fixture
def sharpness() -> float:
    """Pixels of the picture for each pixel of the page."""
    return 1


@pytest.fixture
def page(browser: Browser, host_script: str, sharpness: float) -> Iterator[Page]:
    """Give an empty chat whose clock stands still at `NOW`."""
    context = browser.new_context(
        viewport={"width": 560, "height": 800},
        timezone_id="Asia/Tokyo",
        locale="en-US",
        device_scale_factor=sharpness,
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.clock.install(time=NOW - timedelta(minutes=1))
    page.set_content((HOST / "host.html").read_text("utf-8"))
    page.add_script_tag(content=host_script)
    page.clock.pause_at(NOW)
    yield page
    context.close()


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
    context = browser.new_context(viewport={"width": 560, "height": 800}, timezone_id="America/Denver", locale="en-US")
    page = context.new_page()
    page.set_content((HOST / "host.html").read_text("utf-8"))
    page.add_script_tag(content=host_script)
    yield page
    context.close()

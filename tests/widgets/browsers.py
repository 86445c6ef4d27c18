"""The browser of a file of tests, and its windows: each begins empty, in a process that is already warm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright._impl._sync_base import mapping
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.widgets.tooling import find_chromium

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


class SharedBrowser:
    """A browser for the files below a folder: to start one takes as long as two or three of their tests.

    While it runs, no other code of this thread can have an event loop.
    """

    def __init__(self, folder: Path, *flags: str) -> None:
        self._folder = folder
        self._flags = flags
        self._browser: Browser | None = None
        self._held = ExitStack()
        self.suspect = False
        """Whether a test failed in it: the next file gets another one."""

    def running(self) -> Browser:
        """Return the browser, which is started where none runs."""
        if self.suspect:
            self.close()
        if self._browser is None:
            self._browser = self._held.enter_context(launched(*self._flags))
        return self._browser

    def close_behind(self, item: pytest.Item, following: pytest.Item | None) -> None:
        """Close it behind the last of the files that follow one another; within a file all tests have the same one."""
        if following is None or (following.path != item.path and not self._shows(following)):
            self.close()

    def _shows(self, item: pytest.Item) -> bool:
        return item.path.is_relative_to(self._folder) and item.get_closest_marker("browser") is not None

    def close(self) -> None:
        self._browser, self.suspect = None, False
        self._held.close()


@contextmanager
def launched(*flags: str) -> Iterator[Browser]:
    """Run a browser."""
    with sync_playwright() as playwright:
        path = find_chromium()
        chromium = playwright.chromium.launch(executable_path=path, args=[*QUIET, *flags], timeout=PATIENCE_MS)
        yield chromium
        chromium.close()


@contextmanager
def opened(browser: Browser, **options: Any) -> Iterator[Page]:
    """Open the one page of a context in which nothing is in motion; it is as patient with everything as elsewhere.

    It is Playwright's own way to give each test a page without the price of a new process. All that the test before
    left is taken back: documents, clocks, routes, handlers, cookies, and what sites stored.
    """
    options = {"locale": "en-US", "reduced_motion": "reduce", **options}
    inside = browser._impl_obj  # its runner for Node has this in public, the one for Python not yet
    context: BrowserContext = mapping.from_impl(browser._sync(inside._new_context_for_reuse(options)))
    context.set_default_timeout(PATIENCE_MS)
    try:
        yield next(iter(context.pages), None) or context.new_page()
    finally:
        browser._sync(inside._disconnect_from_reused_context("the test is over"))

"""A browser for all files, and a chat for each file that every test finds empty."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.widgets.browsers import SharedBrowser, opened
from tests.widgets.chat import SIZE, Chat
from tests.widgets.evidence import evidence
from tests.widgets.live import LiveServer
from tests.widgets.sample import NOW
from tests.widgets.tooling import HOST, bundle

ONE_PROCESS = ["--disable-site-isolation-trials"]
"""A card's frame lives in its chat's process. Between two processes a click is routed by the last *painted* size of the
frame, and is lost when the frame has just grown.
"""

shared = SharedBrowser(Path(__file__).parent, *ONE_PROCESS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    given: dict[str, object] = getattr(item, "funcargs", {})
    shown = {each.page if isinstance(each, Chat) else each for each in given.values() if isinstance(each, Chat | Page)}
    pages = [page for page in shown if report.failed and not page.is_closed()]
    report.sections += [("the page", evidence(page)) for page in pages]
    shared.suspect |= report.failed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    yield
    shared.close_behind(item, nextitem)


@pytest.fixture(scope="session")
def host_script() -> str:
    return bundle()


@pytest.fixture(scope="module")
def browser() -> Browser:
    return shared.running()


@pytest.fixture(scope="module")
def sharpness() -> float:
    """Pixels of the picture for each pixel of the page."""
    return 1


def begin(page: Page, script: str) -> None:
    """Make a page an empty chat."""
    page.goto("about:blank")
    page.set_content((HOST / "host.html").read_text("utf-8"))
    page.add_script_tag(content=script)


@pytest.fixture(scope="module")
def shared_chat(browser: Browser, host_script: str, sharpness: float) -> Iterator[Chat]:
    """Give the chat of a file: to open one takes as long as two or three cards. Its clock stands still at `NOW`."""
    with opened(browser, viewport=SIZE, timezone_id="Asia/Tokyo", device_scale_factor=sharpness) as page:
        page.clock.install(time=NOW - timedelta(days=1))  # from there it runs until it is stopped, and cannot go back
        begin(page, host_script)
        page.clock.pause_at(NOW)
        yield Chat(page)
        page.clock.resume()  # who leaves it paused has it resumed at some moment of the next test


@pytest.fixture
def chat(shared_chat: Chat, host_script: str) -> Iterator[Chat]:
    """Give an empty chat; whatever the card complained about on the console fails the test."""
    if shared.suspect:
        begin(shared_chat.page, host_script)
    shared_chat.clear()
    yield shared_chat
    assert shared_chat.problems == []


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    """Give the server of a file."""
    with LiveServer(tmp_path_factory.mktemp("live")).running() as server:
        yield server


@pytest.fixture
def today(browser: Browser, host_script: str, live: LiveServer) -> Iterator[Page]:
    """Give an empty chat whose clock is the real one, as the server's is; it is closed before the server.

    A file with it takes no `chat`: the browser has one page, and to open another closes that of the file.
    """
    with opened(browser, viewport=SIZE, timezone_id="America/Denver") as page:
        begin(page, host_script)
        yield page

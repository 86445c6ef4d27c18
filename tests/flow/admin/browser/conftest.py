"""The admin page in a real Chromium: whatever it complains about on its console fails the test."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.flow.admin.browser.axe import axe
from tests.flow.admin.many import fill_many
from tests.flow.admin.sample import fill
from tests.flow.admin.served import Served, served
from tests.widgets import browsers
from tests.widgets.evidence import evidence

MAX_ROW_COUNT = 50
"""Rows of a table of the admin page at most."""

shared = browsers.SharedBrowser(Path(__file__).parent)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    given: dict[str, object] = getattr(item, "funcargs", {})
    windows = [each for each in given.values() if report.failed and isinstance(each, Window)]
    report.sections += [("the page", evidence(each.page)) for each in windows if not each.page.is_closed()]
    shared.suspect |= report.failed
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    yield
    shared.close_behind(item, nextitem)


@dataclass
class Window:
    """A window at the admin page."""

    page: Page
    url: str
    problems: list[str] = field(default_factory=list)

    def open(self, path: str = "") -> None:
        answer = self.page.goto(f"{self.url}/admin{path}")
        assert answer is not None
        assert answer.status == 200, answer.text()
        self.page.wait_for_function("() => window.htmx && document.readyState === 'complete'")

    def violations(self, rules: Sequence[str] = (), *, but: Sequence[str] = (), rows: int = MAX_ROW_COUNT) -> list[str]:
        """Return what axe finds wrong with the page, by these rules or by all `but` some, with the elements.

        Of a table it looks at the first `rows`.
        """
        looked = {"exclude": [[f"tbody tr:nth-child(n + {rows + 1})"]]}
        if not self.page.evaluate("() => 'axe' in window"):
            self.page.evaluate(axe())
        off = {rule: {"enabled": False} for rule in but}
        options = {"resultTypes": ["violations"], "rules": off, **({"runOnly": [*rules]} if rules else {})}
        found: dict[str, Any] = self.page.evaluate("([looked, options]) => axe.run(looked, options)", [looked, options])
        return [
            f"{each['id']}: {node['html'][:160]} {node.get('failureSummary', '')}"
            for each in found["violations"]
            for node in each["nodes"]
        ]

    @property
    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        wide: int = self.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        return wide

    def sideways(self) -> list[str]:
        """Return the tables that are wider than their place, by what they are."""
        found: list[str] = self.page.evaluate(
            """() => [...document.querySelectorAll(".scroll")].filter((each) => each.scrollWidth > each.clientWidth)
                .map((each) => each.querySelector("caption").textContent)"""
        )
        return found

    @property
    def head_height(self) -> float:
        """Return the height of the part above the content of a narrow window, in pixels."""
        found: float = self.page.evaluate("() => document.querySelector('header.side').offsetHeight")
        return found


@pytest.fixture(scope="module")
def browser() -> Browser:
    return shared.running()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a day of 30 tasks."""
    url = f"sqlite:///{tmp_path_factory.mktemp('admin')}/duetime.db"
    fill(url, 30)
    with served(url) as server:
        yield server


@pytest.fixture(scope="module")
def full_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Serve a day of so many tasks that the newest alone are counted."""
    url = f"sqlite:///{tmp_path_factory.mktemp('full')}/duetime.db"
    fill_many(url, 100_000)
    with served(url) as server:
        yield server


@pytest.fixture
def empty_site(tmp_path: Path) -> Iterator[Served]:
    with served(f"sqlite:///{tmp_path}/duetime.db") as server:
        yield server


@pytest.fixture
def options() -> dict[str, Any]:
    """Options of the window, which a test may replace."""
    return {}


@pytest.fixture
def window(browser: Browser, site: Served, options: dict[str, Any]) -> Iterator[Window]:
    yield from opened(browser, site, options)


@pytest.fixture
def full_window(browser: Browser, full_site: Served, options: dict[str, Any]) -> Iterator[Window]:
    yield from opened(browser, full_site, options)


@pytest.fixture
def empty_window(browser: Browser, empty_site: Served, options: dict[str, Any]) -> Iterator[Window]:
    yield from opened(browser, empty_site, options)


def opened(browser: Browser, site: Served, options: dict[str, Any]) -> Iterator[Window]:
    """Open a window; what its pages put on the console, an error or a violation of the policy, fails the test."""
    given = {"viewport": {"width": 1280, "height": 900}, "timezone_id": "Asia/Tokyo"}
    with browsers.opened(browser, **{**given, **options}) as page:
        window = Window(page, site.url)
        page.on("console", lambda said: window.problems.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: window.problems.append(str(error)))
        yield window
        assert window.problems == []

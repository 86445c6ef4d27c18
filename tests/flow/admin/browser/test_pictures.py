"""The pictures of the docs are taken of the pages as they are; looking at them is part of a change.

A picture that is missing is taken, and each again where `ADMIN_PICTURES` is set; else no browser is needed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.history.runs import RunFilter
from playwright.sync_api import Browser, FloatRect

from tests.flow.admin.browser.conftest import Window, opened
from tests.flow.admin.browser.stage import asking_for_a_key, at_work, without_tasks
from tests.flow.admin.served import Served
from tests.widgets.pictures import MIN_COLOUR_COUNT, Picture, indexed
from tests.widgets.tooling import ROOT

pytestmark = pytest.mark.browser

IMAGES = ROOT / "docs" / "images" / "admin"
MAX_BYTES = 120_000
MAX_HEIGHT_PX = 1160
LOOKS: Mapping[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1280, "height": 600}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1280, "height": 600}, "color_scheme": "dark"},
    "narrow": {"viewport": {"width": 320, "height": 600}, "color_scheme": "light"},
}
DRAWN = "() => [...document.querySelectorAll('[data-chart]')].every((chart) => chart.querySelector('canvas'))"
OF_WORK = {
    "overview": "",
    "runs": "/runs",
    "run": "the first failed run",
    "run-waiting": "the first run that waits",
    "dead": "/dead",
    "timeline": "/timeline?window=24h",
    "schedules": "/schedules",
    "cost": "/cost",
    "audit": "/audit",
    "audit-verdict": "/audit/verify",
    "pools": "/pools",
    "pool": "/pools/gpu",
    "workers": "/workers",
    "policy": "/policy",
}
OTHERS = {"login": "/login", "empty": ""}
TITLES = {"run": ("failed", ""), "run-waiting": ("ready", "Render")}
"""Runs of which a page is shown: their state, and the start of their title."""

Serve = Callable[[Path], AbstractContextManager[Served]]
SITES: tuple[tuple[Serve, Mapping[str, str]], ...] = (
    (at_work, OF_WORK),
    (asking_for_a_key, {"login": OTHERS["login"]}),
    (without_tasks, {"empty": OTHERS["empty"]}),
)


def test_each_page_has_its_pictures_light_dark_and_narrow(tmp_path: Path, browser: Browser) -> None:
    names = {f"{page}-{look}" for page in {**OF_WORK, **OTHERS} for look in LOOKS}
    if os.environ.get("ADMIN_PICTURES") or any(not (IMAGES / f"{name}.png").exists() for name in names):
        for serve, pages in SITES:
            with serve(tmp_path) as site:
                _take(browser, site, pages)
    assert {path.stem for path in IMAGES.iterdir()} == names
    assert {path.name: path.stat().st_size for path in IMAGES.iterdir() if path.stat().st_size > MAX_BYTES} == {}
    assert {path.stem: wrong for path in IMAGES.iterdir() if (wrong := _wrong(path))} == {}


def _wrong(path: Path) -> str:
    """Return what is wrong with a picture for one of that name; a blank or a damaged one is no picture."""
    found, look = Picture.read(path), path.stem.rpartition("-")[2]
    size = LOOKS[look]["viewport"]
    if found.width != size["width"] or not size["height"] <= found.height <= MAX_HEIGHT_PX:
        return f"{found.width} x {found.height} pixels"
    if found.is_dark is not (look == "dark"):
        return "dark" if found.is_dark else "light"
    return "" if found.colour_count >= MIN_COLOUR_COUNT else "blank"


def _take(chromium: Browser, site: Served, pages: Mapping[str, str]) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for look, options in LOOKS.items():
        with ExitStack() as stack:
            window = stack.enter_context(contextmanager(opened)(chromium, site, options))
            painter = stack.enter_context(closing(chromium.new_page()))  # the pages' policy lets them read no picture
            for name, path in pages.items():
                _show(window, site, name, path)
                high = min(window.page.evaluate("() => document.documentElement.scrollHeight"), MAX_HEIGHT_PX)
                part: FloatRect = {"x": 0, "y": 0, "width": options["viewport"]["width"], "height": high}
                taken = window.page.screenshot(full_page=True, clip=part, animations="disabled", caret="hide")
                (IMAGES / f"{name}-{look}.png").write_bytes(indexed(painter, taken))


def _show(window: Window, site: Served, name: str, path: str) -> None:
    state, title = TITLES.get(name, ("", ""))
    if state:
        found = site.app.store.run_history.page("local", RunFilter(), limit=200).runs
        path = f"/runs/{next(run.id for run in found if run.state == state and run.title.startswith(title))}"
    if name == "login":
        window.page.goto(f"{window.url}/admin{path}")
    else:
        window.open(path)
    window.page.wait_for_function(DRAWN)
    here = f"{socket.gethostname()}-{os.getpid()}"
    assert here not in window.page.content(), "the machine that takes a picture is not in it"

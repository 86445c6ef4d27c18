"""The React card of the examples: built once for each file of tests, and its demo in a browser."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Route

from tests.flow.admin.browser.axe import axe
from tests.widgets import provision
from tests.widgets.tooling import ROOT, ensure_node_modules, ensure_npm

SOURCES = ROOT / "examples" / "react-card"
CACHE = ROOT / "build" / "react-card-tests"
"""Outside git; the modules stay here between test runs."""

MADE = ("node_modules", "dist", "generated", "package-lock.json")
ORIGIN = "http://localhost"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


def build(folder: Path) -> Path:
    """Build the demo in a copy, so that nothing is written among the sources, and return the copy."""
    modules = ensure_node_modules(CACHE, SOURCES / "package.json")
    shutil.copytree(ROOT / "docs" / "payloads", folder / "docs" / "payloads")
    project = folder / "examples" / "react-card"
    shutil.copytree(SOURCES, project, ignore=shutil.ignore_patterns(*MADE))
    (project / "node_modules").symlink_to(modules)
    run("build", project)
    return project


def run(script: str, project: Path) -> None:
    """Run a script of its package.json; what it complains about fails the test."""
    try:
        provision.run([*ensure_npm(), "run", script], project)
    except subprocess.CalledProcessError as error:
        pytest.fail(f"{error.stdout}\n{error.stderr}", pytrace=False)


@dataclass
class Demo:
    """The demo page; `problems` is what it put on the console."""

    page: Page
    built: Path
    problems: list[str] = field(default_factory=list)

    def open(self) -> None:
        self.page.on("console", lambda said: self.problems.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.route(f"{ORIGIN}/**", self._serve)
        self.page.goto(f"{ORIGIN}/")
        self.page.get_by_role("heading", name="Cards of Duetime").wait_for()

    def card(self, name: str) -> Locator:
        """Return the section of a name."""
        return self.page.get_by_role("region", name=name, exact=True)

    def violations(self) -> list[str]:
        """Return what axe finds wrong with the page, with the elements."""
        self.page.evaluate(axe())
        found: dict[str, Any] = self.page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
        return [f"{each['id']}: {node['html'][:160]}" for each in found["violations"] for node in each["nodes"]]

    @property
    def overflow(self) -> int:
        """Return by how many pixels the page is wider than its window."""
        wide: int = self.page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
        return wide

    def _serve(self, route: Route) -> None:
        path = self.built / (route.request.url.removeprefix(f"{ORIGIN}/").partition("?")[0] or "index.html")
        if not path.is_file():
            route.fulfill(json={"schema": "duetime.list/1", "tasks": [], "counts": {}})
            return
        route.fulfill(body=path.read_bytes(), content_type=TYPES[path.suffix])

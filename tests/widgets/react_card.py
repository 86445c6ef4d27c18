"""The React examples: built once for each file of tests, and their demos in a browser."""

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

CARD = "react-card"
CHATS = "react-chats"
"""Their folders below `examples`; both use the sources of the card."""

MADE = ("node_modules", "dist", "generated", "package-lock.json")
ORIGIN = "http://localhost"
TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css"}


def build(folder: Path, example: str = CARD) -> Path:
    """Build a demo in a copy, so that nothing is written among the sources, and return the copy.

    Outside git, below `build`, its modules stay between test runs.
    """
    modules = ensure_node_modules(ROOT / "build" / f"{example}-tests", ROOT / "examples" / example / "package.json")
    shutil.copytree(ROOT / "docs" / "payloads", folder / "docs" / "payloads")
    for name in {CARD, example}:
        shutil.copytree(ROOT / "examples" / name, folder / "examples" / name, ignore=shutil.ignore_patterns(*MADE))
    project = folder / "examples" / example
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

    def open(self, heading: str = "Cards of Duetime") -> None:
        self.page.on("console", lambda said: self.problems.append(f"{said.type}: {said.text}"))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.route(f"{ORIGIN}/**", self._serve)
        self.page.goto(f"{ORIGIN}/")
        self.page.get_by_role("heading", name=heading).wait_for()

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

"""Finds, or brings, what the card tests need in addition to Python: Node with the official AppBridge, and a Chromium.

A tool that cannot be brought either skips these tests on a laptop and says what would help; where CI is set it fails
them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest
from duetime.scheduler.runtime.file_lock import FileLock

from tests.flow.waiting import eventually
from tests.widgets import provision

ROOT = Path(__file__).resolve().parents[2]
HOST = Path(__file__).parent / "host"
CACHE = ROOT / "build" / "card-tests"
"""Outside git; the modules stay here between test runs."""

CHROMIUMS = (*provision.DEBIANS, "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ELSEWHERE = (Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),)


def missing(what: str, remedy: str) -> NoReturn:
    sentence = f"{what} is missing, so the cards are not tested. {remedy}"
    if os.environ.get("CI"):
        pytest.fail(sentence, pytrace=False)
    pytest.skip(sentence)


def find_chromium() -> str:
    """Return the path of an installed Chromium; `DUETIME_TEST_CHROMIUM` names one that is not on the path."""
    named = os.environ.get("DUETIME_TEST_CHROMIUM")
    found = named or next(filter(None, map(shutil.which, CHROMIUMS)), None)
    found = found or next((str(path) for path in ELSEWHERE if path.exists()), None)
    if found is not None:
        return found
    try:
        with installing_alone():
            return provision.chromium(CACHE)
    except provision.Unavailable as error:
        missing("A Chromium", f"{error} Install Google Chrome, or set DUETIME_TEST_CHROMIUM to the path of one.")


def ensure_node_modules(folder: Path = CACHE, package: Path = HOST / "package.json") -> Path:
    """Return the modules that a wish list names, installed by npm on first use and when the list changes."""
    modules, wanted = folder / "node_modules", package.read_text("utf-8")
    with installing_alone():
        npm = ensure_npm()
        if not modules.exists() or _text(folder / "installed.json") != wanted:
            _install(npm, folder, wanted)
    return modules


def bundle(name: str = "host.js") -> str:
    """Return a host page's script: our few lines joined with the packages that they use."""
    modules = ensure_node_modules()
    command = [str(modules / ".bin" / "esbuild"), str(HOST / name), "--bundle", "--format=iife", "--minify"]
    command += ['--define:process.env.NODE_ENV="production"', "--pure:console.debug"]
    return provision.run(command, HOST, {"NODE_PATH": str(modules)})


@contextmanager
def installing_alone() -> Iterator[None]:
    """Wait for other workers of the suite: two installations at once into one folder spoil each other."""
    CACHE.mkdir(parents=True, exist_ok=True)
    lock = FileLock(CACHE / "lock")
    eventually(lock.acquire, "another worker's installation")
    try:
        yield
    finally:
        lock.release()


def ensure_npm() -> list[str]:
    """Return how to call npm."""
    try:
        return provision.npm(CACHE)
    except provision.Unavailable as error:
        missing("Node (npm)", str(error))


def _install(npm: list[str], folder: Path, wanted: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "package.json").write_text(wanted, "utf-8")
    try:
        provision.run([*npm, "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent"], folder)
    except subprocess.CalledProcessError as error:
        names = ", ".join(json.loads(wanted)["dependencies"])
        missing(names, f"npm could not install them: {error.stderr.strip()[-300:]}")
    (folder / "installed.json").write_text(wanted, "utf-8")


def _text(path: Path) -> str:
    return path.read_text("utf-8") if path.exists() else ""

"""The ground of all flows: a store in a file, and a clock that is set by hand."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from duetime.scheduler.store import Store, open_store

from tests import blank
from tests.builders import Clock
from tests.canary import leaks


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield opened
    opened.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test that shows the value of a secret: in what was captured of it, or in a file that it left."""
    report = yield
    if report.when == "teardown" and report.passed:
        found = leaks(report.sections, getattr(item, "funcargs", {}).get("tmp_path"))
        if found:
            report.outcome, report.longrepr = "failed", "the value of a secret was shown:\n" + "\n".join(found)
    return report

"""The quick part of the fault matrix; `python -m tests.faults` plays all of it. See docs/reliability.md."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import StoreUnavailable

from tests import services
from tests.faults import caller
from tests.faults.conftest import ROOT
from tests.faults.matrix import Servers, play
from tests.faults.plays import PLAYS
from tests.faults.scenarios import SHARED, Scenario

pytestmark = pytest.mark.faults

QUICK = [each for each in PLAYS if each.quick]


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    started = Servers()
    yield started
    started.close()


@pytest.mark.parametrize("scenario", QUICK, ids=str)
def test_every_invariant_holds_whatever_breaks(scenario: Scenario, servers: Servers, tmp_path: Path) -> None:
    try:
        result = play(scenario, servers, tmp_path)
    except services.Unavailable as error:
        if scenario.place != SHARED or os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    assert not result.wrong, result.wrong


def test_a_caller_repeats_a_call_of_which_nothing_was_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [StoreUnavailable("The database is busy")]

    def call() -> dict[str, Any]:
        if failures:
            raise failures.pop()
        return {"freed": 1}

    monkeypatch.setattr(caller, "PAUSE_S", 0)
    assert caller.answer_of(call) == {"freed": 1}


def test_no_two_scenarios_have_one_name() -> None:
    names = [str(each) for each in PLAYS]
    assert len(names) == len(set(names))
    assert {each.place for each in QUICK} == {"embedded", "shared"}


def test_the_page_has_a_row_for_each_scenario_and_no_other() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (embedded|shared) \| .* \| holds \|$", page, re.MULTILINE)
    assert sorted(f"{name}, {place}" for name, place in rows) == sorted(map(str, PLAYS))

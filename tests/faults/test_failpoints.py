"""Fail points do nothing in production, and exactly what they are told elsewhere; every step is there to be hit."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.errors import InvalidSetting
from duetime.scheduler.runtime import failpoints
from duetime.scheduler.runtime.failpoints import Step, armed
from duetime.scheduler.task import State
from duetime.server.app import build
from duetime.server.settings.model import Settings

from tests.faults.conftest import ROOT
from tests.flow.waiting import eventually


def test_without_the_variable_a_step_costs_nothing_and_does_nothing() -> None:
    assert failpoints.hit is armed(None)
    assert {armed(None)(step) for step in Step} == {None}


@pytest.mark.parametrize("spec", ["put", "nowhere:kill", "put:explode", "put:kill:-1", "put:kill:2.5", ":"])
def test_a_fail_point_that_is_none_is_refused_with_an_example(spec: str) -> None:
    with pytest.raises(InvalidSetting, match=r"DUETIME_TEST_FAILPOINT: .* Example: put:kill:3"):
        armed(spec)


def test_it_strikes_at_the_step_and_time_that_it_names_and_only_then() -> None:
    hit = armed("taken:raise:3")
    for step in [*Step, Step.TAKEN]:
        hit(step)
    with pytest.raises(failpoints.FailPoint):
        hit(Step.TAKEN)
    hit(Step.TAKEN)


def test_a_hang_happens_once_and_is_as_long_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[int] = []
    assert failpoints._ACTIONS["hang"] is time.sleep
    monkeypatch.setitem(failpoints._ACTIONS, "hang", slept.append)
    hit = armed("settled:hang:8")
    hit(Step.SETTLED)
    hit(Step.SETTLED)
    assert slept == [8]


@pytest.mark.parametrize(
    ("action", "number"), [("kill", signal.SIGKILL), ("segfault", signal.SIGSEGV)], ids=["kill", "segfault"]
)
def test_it_ends_its_process_and_says_where(action: str, number: signal.Signals) -> None:
    code = "from duetime.scheduler.runtime import failpoints; failpoints.hit(failpoints.Step.PUT); print('alive')"
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path), "DUETIME_TEST_FAILPOINT": f"put:{action}"}
    ended = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == -number
    assert f"fail point put: {action}" in ended.stderr
    assert ended.stdout == ""


def test_one_normal_run_passes_every_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGER", str(tmp_path / "ledger"))
    passed: list[Step] = []
    monkeypatch.setattr(failpoints, "hit", passed.append)
    settings = Settings(
        database_url=f"sqlite:///{tmp_path}/duetime.db", handlers=("tests.faults.ledger",), timezone="UTC"
    )
    with build(settings) as app:
        task = app.scheduler.schedule("Once", when="now", action="effect").record.task
        app.start()
        eventually(lambda: app.scheduler.get(task.id).record.run.state is State.SUCCEEDED, "the run to end")
        app.runner.stop(timedelta(seconds=5))
    assert list(dict.fromkeys(passed)) == list(Step)

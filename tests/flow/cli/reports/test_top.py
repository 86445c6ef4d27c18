"""`duetime top`: one frame in a pipe, frames in a terminal until Ctrl-C, and columns that fit."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.store import open_store
from duetime.server.cli.main import run
from duetime.server.cli.reports.top_frame import frame
from rich.console import Console

from tests import blank
from tests.builders import started

OTHER_SCREEN, OWN_SCREEN, CURSOR = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?25h"
FOUND: dict[str, Any] = {
    "now": "2026-11-23T00:58:59Z",
    "tiers": [
        {
            "tier": tier,
            "states": {"ready": 2, "running": 1, "scheduled": 7, "retrying": 1},
            "oldest_seconds": 35.5,
            "patience_seconds": 30.0,
            "late": True,
        }
        for tier in ("critical", "background")
    ],
    "queue": {"leased": 1, "parked": 2, "delayed": 0},
    "pools": {
        "team/gpu": {"state": "admitting", "used": 1, "capacity": 1, "free": 0, "spent": 0, "parked": 2, "factor": 1}
    },
    "workers": [
        {
            "id": "build-7-4711",
            "state": "running",
            "threads": 8,
            "running": 1,
            "runs": [
                {
                    "run_id": "r_1",
                    "task_id": "t_7k3m9qx2w4hb",
                    "tenant": "acme\x1b[2J",
                    "action": "render",
                    "priority": "high",
                    "attempt": 2,
                    "seconds": 3_700.0,
                }
            ],
        }
    ],
    "throughput": [{"seconds": seconds, "ready": 30, "started": 20, "ended": 10} for seconds in (60.0, 300.0)],
    "outcomes": {"seconds": 900.0, "started": 9, "retried": 1, "failed": 2, "deadlines": 8, "missed": 3},
}


def drawn(width: int, **changes: Any) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(frame({**FOUND, **changes}, "Europe/Berlin", width))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_a_frame_has_tiers_rates_misses_pools_and_the_runs_of_workers() -> None:
    lines = drawn(120)
    assert lines[0] == "duetime top  2026-11-23 01:58:59 Europe/Berlin"
    assert lines[1] == "per minute, over 5 min: 6 ready, 4 started, 2 ended"
    assert lines[2] == "in 15 min: 3 of 8 deadlines missed, 2 failed, 1 tried again"
    text = [line.split() for line in lines]
    assert ["TIER", "RUNNING", "READY", "OLDEST", "PATIENCE", "SCHEDULED", "RETRYING"] in text
    assert ["critical", "1", "2", "35", "s", "late", "30", "s", "7", "1"] in text
    assert ["team/gpu", "admitting", "1", "1", "0", "0", "2"] in text
    assert text[-1][:7] == ["build-7-4711", "running", "1/8", "render", "1", "h", "1"]
    assert "\x1b" not in "".join(lines), "what others wrote steers no terminal"


def test_a_frame_counts_the_runs_of_paused_tasks_apart() -> None:
    tiers = [{**tier, "paused": 3 * at} for at, tier in enumerate(FOUND["tiers"])]
    text = [line.split() for line in drawn(120, tiers=tiers)]
    assert ["TIER", "RUNNING", "READY", "OLDEST", "PATIENCE", "SCHEDULED", "RETRYING", "PAUSED"] in text
    assert ["background", "1", "2", "35", "s", "late", "30", "s", "7", "1", "3"] in text


@pytest.mark.parametrize(("withheld", "idle"), [(1, "1 thread stays"), (4, "4 threads stay")])
def test_a_frame_names_the_workers_whose_machine_is_busy(withheld: int, idle: str) -> None:
    lines = drawn(120, workers=[{**FOUND["workers"][0], "withheld": withheld}])
    assert lines[-1] == f"build-7-4711: {idle} idle: its machine is short of memory or CPU"


def test_a_frame_fits_a_narrow_terminal() -> None:
    for width in (30, 44, 60, 80):
        lines = drawn(width)
        assert max(map(len, lines)) <= width
        assert any(line.startswith("critical") for line in lines)
        assert len(lines) == len(drawn(120)), "no line is folded"


def test_a_silent_queue_is_said_and_the_rest_is_shown() -> None:
    lines = drawn(100, queue=None, pools={}, workers=[], silent="Redis does not answer")
    assert "Redis does not answer" in lines
    assert lines[-1] == "No worker has reported, and nothing runs."


@pytest.fixture
def busy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a run that a worker has in hand, in the database that the environment names."""
    for name in [name for name in os.environ if name.upper().startswith("DUETIME_")]:
        monkeypatch.delenv(name)
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    monkeypatch.setenv("DUETIME_DESKTOP_NOTIFICATIONS", "off")
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", migrate=True)
    started(store, store.now(), tenant="acme", title="Canary title", action="reminder", worker="w7")
    store.close()


@pytest.mark.usefixtures("busy")
def test_a_pipe_gets_one_frame_and_a_program_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top"]) == 0
    shown = capsys.readouterr().out
    assert run(["top", "--json"]) == 0
    [worker] = json.loads(written := capsys.readouterr().out)["workers"]

    assert ["w7", "running", "1", "reminder"] in [line.split()[:4] for line in shown.splitlines()]
    assert (worker["id"], [each["tenant"] for each in worker["runs"]]) == ("w7", ["acme"])
    assert "Canary" not in shown + written, "no tenant wrote a word of it"


def test_workers_elsewhere_that_hold_no_run_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    blank.make(tmp_path / "duetime.db")
    monkeypatch.setenv("DUETIME_DATABASE_URL", f"sqlite:///{tmp_path}/duetime.db")
    with closing(open_store(f"sqlite:///{tmp_path}/duetime.db")) as store:
        store.external_workers.asked("acme", "bot", ("transcribe",), client=None, everywhere=False)
        name = store.external_workers.all()[0].name
    assert run(["top"]) == 0
    shown = capsys.readouterr().out
    assert [name, "running", "0"] in [line.split() for line in shown.splitlines()]
    assert "No worker has reported" not in shown


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("busy")
def test_a_terminal_gets_frames_until_a_signal_and_is_left_as_it_was(end: signal.Signals) -> None:
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-m", "duetime", "top", "--interval", "0.5"])
    seen = b""
    while seen.count(b"duetime top") < 2:
        seen += os.read(terminal, 65_536)
    os.kill(process, end)
    rest = seen + _rest(terminal)

    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    assert rest.count(OTHER_SCREEN) == rest.count(OWN_SCREEN) == 1
    assert rest.rindex(OWN_SCREEN) > rest.rindex(b"duetime top")
    assert CURSOR in rest
    assert b"Traceback" not in rest


def _rest(terminal: int) -> bytes:
    """Return what is written until the end, which Linux reports as an error."""
    found = b""
    while True:
        try:
            part = os.read(terminal, 65_536)
        except OSError:
            return found
        if not part:
            return found
        found += part

"""The examples run as they stand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def test_a_program_schedules_runs_its_handler_and_cancels() -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "from_python.py")], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Hello, Ada! (attempt 1 of t_" in done.stdout
    assert "Greet all: scheduled" in done.stdout

"""The walks of docs/architecture.md are checked in a process of their own: `tests/traced_walks.py`.

CPython 3.11 can spin for ever at the first traced call of a process. It does so where an exception was once sent to a
thread that had already ended. Tests of lost threads do that.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TRACED = Path(__file__).with_name("traced_walks.py")


def test_both_walks_are_those_that_the_page_shows() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", str(TRACED)]
    done = subprocess.run(
        command, cwd=TRACED.parents[1], env=environment, capture_output=True, check=False, text=True, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "13 passed" in done.stdout

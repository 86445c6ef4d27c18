"""Runs `duetime` with a wall clock that is wrong: `python -m tests.faults.wrong_clock SECONDS worker ...`."""

from __future__ import annotations

import sys
import time

import time_machine
from duetime.server.cli.main import main

if __name__ == "__main__":
    _, wrong_by, *arguments = sys.argv
    sys.argv = ["duetime", *arguments]
    with time_machine.travel(time.time() + float(wrong_by), tick=True):
        main()

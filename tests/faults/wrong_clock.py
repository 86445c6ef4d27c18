"""Runs `duetime` with a wall clock that is wrong: `python -m tests.faults.wrong_clock SECONDS worker ...`.

SIGUSR1 sets it right while the process works.
"""

from __future__ import annotations

import signal
import sys
import time

import time_machine
from duetime.server.cli.main import main

CLOCK_SET = "the clock is set"

if __name__ == "__main__":
    _, wrong_by, *arguments = sys.argv
    sys.argv = ["duetime", *arguments]
    with time_machine.travel(time.time() + float(wrong_by), tick=True) as clock:

        def set_right(_number: int, _frame: object) -> None:
            clock.shift(-float(wrong_by))
            sys.stderr.write(f"{CLOCK_SET}\n")
            sys.stderr.flush()

        signal.signal(signal.SIGUSR1, set_right)
        main()

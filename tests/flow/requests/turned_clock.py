"""Runs `duetime` on a clock that a test turns: `python -m tests.flow.requests.turned_clock FOLDER [serve ...]`.

The time stands still at the instant in FOLDER/clock. After SIGUSR1 the process reads it again, looks at once for what
is due by it, and writes it to FOLDER/clock-PID. The database's clock and that of Redis are this one. An attempt takes a
second: it adds a byte to FOLDER/attempts, and ends when the clock has been turned so far.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import time_machine
from duetime.scheduler.handlers import run_handler
from duetime.scheduler.outcomes import Outcome
from duetime.scheduler.queue.redis import queue
from duetime.scheduler.runtime.loop import Loop
from duetime.scheduler.store import store
from duetime.scheduler.store.database.clock import ServerClock, utc_now
from duetime.scheduler.worker import executor
from duetime.server.cli.main import main

from tests.flow.requests.installation import ATTEMPT

FILE, ATTEMPTS = "clock", "attempts"

ON_THEIR_OWN = frozenset({"alerts", "audit", "decisions", "pools", "retention", "run-logs", "weekly report"})
"""Loops that move no run: a turn of the clock leaves them to their own pauses, as their looks cost half of all."""


class TurnedServerClock(ServerClock):
    """The clock of this process, in the place of the database server's."""

    def __call__(self) -> datetime:
        return utc_now()

    def skew(self) -> float:
        return 0.0

    def leapt(self) -> bool:
        return False


class TurnedClock:
    """The clock of this process, which stands where that of its folder does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loops: weakref.WeakSet[Loop] = weakref.WeakSet()
        self._turned = threading.Condition()

    def rule(self) -> None:
        """Make this the clock of all that is built later."""
        start, attempt = Loop.start, run_handler

        def started(loop: Loop) -> None:
            if loop._name not in ON_THEIR_OWN:
                self._loops.add(loop)
            start(loop)

        def attempted(*given: Any, **named: Any) -> Outcome:
            end = utc_now() + ATTEMPT
            with (self._folder / ATTEMPTS).open("a", encoding="ascii") as begun:
                begun.write(".")
            outcome = attempt(*given, **named)
            with self._turned:
                self._turned.wait_for(lambda: utc_now() >= end)
            return outcome

        turned_queue = partial(queue.RedisQueue, clock=lambda: time.time() * 1000)
        parts: Sequence[tuple[Any, str, Any]] = (
            (Loop, "start", started),
            (executor, "run_handler", attempted),
            (store, "ServerClock", TurnedServerClock),
            (queue, "RedisQueue", turned_queue),
        )
        for owner, name, part in parts:  # whoever builds these knows nothing of this clock
            setattr(owner, name, part)

    def follow(self, travel: time_machine.Traveller) -> None:
        """Turn the clock after each signal; never returns."""
        while True:
            signal.sigwait({signal.SIGUSR1})
            self.turn(travel)

    def turn(self, travel: time_machine.Traveller) -> None:
        """Show the time of the folder, and say that it is shown."""
        text, said = instant(self._folder), self._folder / f"{FILE}-{os.getpid()}"
        with self._turned:
            travel.move_to(datetime.fromisoformat(text), tick=False)
            self._turned.notify_all()
        for loop in list(self._loops):
            loop.wake()
        said.with_suffix(".new").write_text(text, "ascii")
        said.with_suffix(".new").replace(said)


def instant(folder: Path) -> str:
    """Return where the clocks of a folder stand."""
    return (folder / FILE).read_text("ascii")


def run(folder: Path) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})  # for all threads but the one that waits for it
    clock = TurnedClock(folder)
    clock.rule()
    with time_machine.travel(datetime.fromisoformat(instant(folder)), tick=False) as travel:
        clock.turn(travel)
        threading.Thread(target=clock.follow, args=(travel,), daemon=True).start()
        main()


if __name__ == "__main__":
    _, place, *arguments = sys.argv
    sys.argv = ["duetime", *arguments]
    run(Path(place))

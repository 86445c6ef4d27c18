"""A process as a user has it: it runs what is due if it is the runner, and waits otherwise. Killed by the tests.

Its handlers write what they do into a ledger that survives everything: one line for each step, on the disk before the
next begins.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.runner import Runner, RunnerOptions
from duetime.scheduler.store import open_store
from pydantic import BaseModel

THREADS = 8
GRACE = timedelta(seconds=2)


class Work(BaseModel):
    """How long the effect takes."""

    seconds: float = 0.03


class Ledger:
    """An append-only file, synced with each line."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, step: str, ctx: Context) -> None:
        os.write(self._file, f"{step} {ctx.idempotency_key} {ctx.attempt} {os.getpid()}\n".encode())
        os.fsync(self._file)


def handlers(ledger: Ledger) -> Handlers:
    @handler("effect", payload=Work)
    def effect(ctx: Context, payload: Work) -> Done:
        """Take a while, then have an effect."""
        ledger.write("start", ctx)
        end = time.monotonic() + payload.seconds
        while time.monotonic() < end:
            time.sleep(0.005)
        ledger.write("effect", ctx)
        return Done("done")

    @handler("poison")
    def poison(ctx: Context) -> Done:
        """Take the process down."""
        ledger.write("start", ctx)
        os.kill(os.getpid(), signal.SIGKILL)
        return Done()

    return Handlers([effect, poison])


def main(folder: Path) -> None:
    asked_to_end: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, _: asked_to_end.append(number))
    store = open_store(f"sqlite:///{folder}/duetime.db")
    options = RunnerOptions(folder / "runner.lock", threads=THREADS, grace=GRACE)
    runner = Runner(store, handlers(Ledger(folder / "ledger")), options)
    runner.start()
    print("up", flush=True)  # noqa: T201 - the tests wait for this line
    while not asked_to_end:  # an Event would sleep through a signal that another thread received
        time.sleep(0.02)
    runner.stop()
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A process as a user has it: it runs what is due if it is the runner, and waits otherwise. Killed by the tests."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

from duetime.scheduler.handlers import Handlers
from duetime.scheduler.nodes.runner import Runner, RunnerOptions
from duetime.scheduler.store import open_store

THREAD_COUNT = 8
GRACE = timedelta(seconds=2)


def main(folder: Path) -> None:
    asked_to_end: list[int] = []
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda number, _: asked_to_end.append(number))
    os.environ["LEDGER"] = str(folder / "ledger")
    store = open_store(f"sqlite:///{folder}/duetime.db")
    options = RunnerOptions(folder / "runner.lock", threads=THREAD_COUNT, grace=GRACE)
    runner = Runner(store, Handlers.load(["tests.faults.ledger"], entry_points=False), options)
    runner.start()
    print("up", flush=True)  # noqa: T201 - the tests wait for this line
    while not asked_to_end:  # an Event would sleep through a signal that another thread received
        time.sleep(0.02)
    runner.stop()
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Lateness of starts: idle start, a burst of 1,000 among 100,000 pending, and what an idle process costs.

    python benchmarks/bench_start.py [--pending 100000] [--burst 1000] [--synchronous FULL]

Everything runs embedded: SQLite on disk, the queue in memory, 16 threads, one process. A fresh process measures each
figure, so that filling the database leaves no trace in it. Read README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import psutil
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.ids import new_id, new_task_id
from duetime.scheduler.nodes.runner import Runner, RunnerOptions
from duetime.scheduler.outcomes import Done
from duetime.scheduler.records import NewTask
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import RetryPolicy, Run, State, Task
from duetime.server.runtime.garbage import collect_less

STARTED: dict[str, float] = {}


@handler("mark")
def mark(ctx: Context) -> Done:
    """Note when it started, and do nothing."""
    STARTED[ctx.run_id] = time.time()
    return Done("marked")


def new_task(store: Store, due: datetime) -> NewTask:
    task = Task(
        id=new_task_id(),
        tenant="local",
        owner="local",
        title="Benchmark",
        action="mark",
        payload={},
        timezone="UTC",
        when="then",
        repeat=None,
        anchor=due,
        until=None,
        max_runs=None,
        paused=False,
        retry=RetryPolicy(),
        deliver_to=("inbox",),
        labels=(),
        revision=1,
        created_at=store.now(),
        updated_at=store.now(),
    )
    run = Run(new_id("r"), task.id, "local", due, State.SCHEDULED, wake_at=due)
    return NewTask(task, run, actor="benchmark")


def fill(store: Store, pending: int) -> None:
    soon = store.now() + timedelta(days=1)
    for start in range(0, pending, 5000):
        store.tasks.add_many(
            [new_task(store, soon + timedelta(seconds=n)) for n in range(start, min(start + 5000, pending))]
        )


@contextmanager
def running(folder: Path, synchronous: str) -> Iterator[tuple[Store, Runner]]:
    store = open_store(f"sqlite:///{folder}/bench.db", synchronous=synchronous)
    runner = Runner(store, Handlers([mark]), RunnerOptions(lock=folder / "bench.lock"))
    collect_less()  # as `duetime` does when it starts
    runner.start()
    until(lambda: runner.running)
    time.sleep(1)
    try:
        yield store, runner
    finally:
        runner.stop()
        store.close()


def until(condition: Callable[[], bool], pause: float = 0.0002) -> None:
    while not condition():
        time.sleep(pause)


def quantile(values: list[float], part: float) -> float:
    """Return a quantile in milliseconds."""
    return round(sorted(values)[min(len(values) - 1, int(len(values) * part))] * 1000, 2)


def idle_start(folder: Path, synchronous: str) -> dict[str, float]:
    """One task for now at a time: from the return of the call that stored it to the first line of its handler."""
    delays = []
    with running(folder, synchronous) as (store, runner):
        for _ in range(300):
            new = new_task(store, store.now())
            store.tasks.add(new.task, new.run, actor="benchmark")
            stored = time.time()
            runner.wake()
            until(partial(STARTED.__contains__, new.run.id))
            delays.append(STARTED[new.run.id] - stored)
            time.sleep(0.01)
    return {"p50_ms": quantile(delays, 0.5), "p99_ms": quantile(delays, 0.99), "max_ms": quantile(delays, 1)}


def burst(folder: Path, synchronous: str, size: int) -> dict[str, float]:
    """Many tasks due at one second: how late each handler's first line ran."""
    with running(folder, synchronous) as (store, runner):
        due = (store.now() + timedelta(seconds=4)).replace(microsecond=0)
        new = [new_task(store, due) for _ in range(size)]
        store.tasks.add_many(new)
        runner.wake()
        until(lambda: len(STARTED) >= size, pause=0.05)
        late = [STARTED[each.run.id] - due.timestamp() for each in new]
    return {"p50_ms": quantile(late, 0.5), "p99_ms": quantile(late, 0.99), "max_ms": quantile(late, 1)}


def idle_cost(folder: Path, synchronous: str, seconds: float = 20) -> dict[str, float]:
    """Measure what a runner uses that has nothing to do."""
    with running(folder, synchronous):
        process = psutil.Process()
        time.sleep(3)
        before, began = process.cpu_times(), time.monotonic()
        time.sleep(seconds)
        after, passed = process.cpu_times(), time.monotonic() - began
        used = after.user + after.system - before.user - before.system
        return {"cpu_percent": round(100 * used / passed, 3), "rss_mb": round(process.memory_info().rss / 2**20, 1)}


def measured(name: str, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--only", name, "--folder", str(folder), "--burst", str(options.burst)]
    done = subprocess.run(
        [*command, "--synchronous", options.synchronous], check=True, capture_output=True, text=True, env=os.environ
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--burst", type=int, default=1000)
    parser.add_argument("--synchronous", default="FULL")
    parser.add_argument("--only", choices=["idle_start", "burst", "idle_cost"])
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    if options.only:
        figures = {
            "idle_start": lambda: idle_start(options.folder, options.synchronous),
            "burst": lambda: burst(options.folder, options.synchronous, options.burst),
            "idle_cost": lambda: idle_cost(options.folder, options.synchronous),
        }
        print(json.dumps(figures[options.only]()))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with closing(open_store(f"sqlite:///{folder}/bench.db", synchronous="OFF")) as store:
            fill(store, options.pending)
        print(f"{options.pending} pending, synchronous={options.synchronous}, {os.cpu_count()} cores")
        for figure in ("idle_start", "burst", "burst", "burst", "idle_cost"):
            print(f"{figure:10}", measured(figure, folder, options), flush=True)


if __name__ == "__main__":
    main()

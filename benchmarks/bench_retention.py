"""Measure what retention costs those who write during it, and what a step of a run costs in a database of a year.

    python benchmarks/bench_retention.py [--runs 1000000] [--seconds 20] [--whole] [--database sqlite] [--keep DIR]

The database is that of bench_history.py: a year of runs, four events each. A writer schedules, makes ready, starts and
settles one run after the other, as a server and a worker do. Each step is a transaction that waits for the disk. It
does so for some seconds alone, then while a real `duetime retention run` deletes. A figure is milliseconds of
one step: the median, the 99th percentile, and the longest. Read README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from statistics import median, quantiles

from duetime.scheduler.ids import new_id
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store, open_store
from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_history import filled
from benchmarks.bench_million import database_url
from benchmarks.bench_store import LEASE, done, new_task

RULES = """
[[retention]]
what = "runs"
age = "30 days"

[[retention]]
what = "events"
age = "30 days"

[[retention]]
what = "attempts"
age = "30 days"
"""
WRITE_PAUSE_S = 0.002
"""Seconds between two runs of the writer, so that it waits for retention and not retention for it."""

WRITTEN_ROWS = {"runs": 1, "attempts": 1, "events": 4, "usage": 0}
"""Rows that the writer adds with each run."""

Waits = dict[str, list[float]]


def write_runs(store: Store, goes_on: Callable[[], bool]) -> Waits:
    """Take runs through all steps while this holds; return the milliseconds of each step."""
    waits: Waits = defaultdict(list)

    @contextmanager
    def timed(step: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        waits[step].append((time.perf_counter() - began) * 1000)

    while goes_on():
        new = new_task(store.now() - timedelta(seconds=1))
        with timed("schedule"):
            store.tasks.add(new.task, new.run, actor="benchmark")
        with timed("ready"):
            ready = store.claims.make_ready(limit=1)
        with timed("claim"):
            starts = [Start(run.run_id, new_id("n")) for run in ready]
            claims = store.claims.start(starts, worker="w", epoch=None, lease=LEASE)
        with timed("settle"):
            store.claims.settle([done(claim) for claim in claims])
        time.sleep(WRITE_PAUSE_S)
    return waits


def for_seconds(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def figures(waits: Waits) -> dict[str, tuple[float, float, float]]:
    def of(step: list[float]) -> tuple[float, float, float]:
        return round(median(step), 2), round(quantiles(step, n=100, method="inclusive")[98], 2), round(max(step), 1)

    return {name: of(step) for name, step in waits.items()} | {"runs": (len(waits["settle"]), 0, 0)}


def counted(store: Store) -> Counter[str]:
    def work(table: str) -> int:
        asked = text(f"SELECT count(*) FROM {table}")
        return store._database.read(lambda it: int(it.execute(asked).scalar_one()))  # noqa: SLF001 - no door counts all

    return Counter({table: work(table) for table in WRITTEN_ROWS})


@contextmanager
def retention(url: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Let `duetime retention run` delete what is older than 30 days, until the block ends."""
    rules = folder / "retention.toml"
    rules.write_text(RULES)
    settings = {"DATABASE_URL": url, "CONFIG": str(rules), "TIMEZONE": "UTC", "LOG_LEVEL": "error"}
    given = os.environ | {f"DUETIME_{name}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "duetime", "retention", "run", "--json"]
    with subprocess.Popen(command, env=given, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)


def measure(url: str, folder: Path, store: Store, seconds: float, *, whole: bool) -> None:
    """Print the figures of the writer alone, and during retention: for so long, or until that ends."""
    print(json.dumps({"alone": figures(write_runs(store, for_seconds(seconds)))}), flush=True)
    before, began = counted(store), time.monotonic()
    with retention(url, folder) as process:
        waits = write_runs(store, (lambda: process.poll() is None) if whole else for_seconds(seconds))
        ended = process.poll() is not None
    passed = round(time.monotonic() - began)
    runs, after = len(waits["settle"]), counted(store)
    gone = {table: before[table] + runs * rows - after[table] for table, rows in WRITTEN_ROWS.items()}
    print(json.dumps({"during retention": figures(waits), "ended": ended, "s": passed, "deleted": gone}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--keep", type=Path, help="folder of a database that stays filled for the next call")
    parser.add_argument("--fill", action="store_true", help="fill the database, and measure nothing")
    parser.add_argument("--steps", action="store_true", help="measure the steps alone, and delete nothing")
    parser.add_argument("--whole", action="store_true", help="let retention run to its end, and write until then")
    asked = parser.parse_args()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = database_url(asked.database, asked.keep, stack)
        fast = open_store(url, synchronous="OFF")
        filled(fast, asked.database, asked.runs)
        fast.close()
        if asked.fill:
            return
        store = stack.enter_context(_opened(url))
        if asked.steps:
            waits = write_runs(store, for_seconds(asked.seconds))
            print(json.dumps({f"{asked.runs} runs": figures(waits)}), flush=True)
        else:
            measure(url, folder, store, asked.seconds, whole=asked.whole)


@contextmanager
def _opened(url: str) -> Iterator[Store]:
    store = open_store(url)
    try:
        yield store
    finally:
        store.close()


if __name__ == "__main__":
    main()

"""Measure what the steps of a run cost in the store, by the size of the batch, on SQLite and on PostgreSQL.

    python benchmarks/bench_store.py [--runs 1024] [--rounds 5] [--batches 1 8 64 256] [--database all]

Every run is added, made ready, started and settled with its event, as the dispatcher and a worker do it, by one thread.
A figure is the median of the rounds, in microseconds for one run. Nothing waits for a disk: SQLite has synchronous=OFF,
the PostgreSQL of the tests (or the one of `DUETIME_TEST_POSTGRES_URL`) fsync=off. `schedule` is one call with an
idempotency key. Read README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from duetime.scheduler.events import EventKind
from duetime.scheduler.ids import new_id, new_task_id
from duetime.scheduler.records import IdempotencyKey, NewTask
from duetime.scheduler.run_records import Claim, Settlement, Start
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import RetryPolicy, Run, State, Task
from sqlalchemy import text

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import services

T = TypeVar("T")

LEASE = timedelta(seconds=30)
STATISTICS_DELAY_S = 2.0
"""Seconds until PostgreSQL has counted what was written."""


def new_task(due: datetime) -> NewTask:
    task = Task(
        id=new_task_id(),
        tenant="local",
        owner="local",
        title="Benchmark",
        action="nothing",
        payload={"message": "nothing"},
        timezone="UTC",
        when="now",
        repeat=None,
        anchor=due,
        until=None,
        max_runs=None,
        paused=False,
        retry=RetryPolicy(),
        deliver_to=("inbox",),
        labels=("home",),
        revision=1,
        created_at=due,
        updated_at=due,
    )
    run = Run(new_id("r"), task.id, "local", due, State.SCHEDULED, wake_at=due)
    return NewTask(task, run, actor="benchmark")


def done(claim: Claim) -> Settlement:
    run, revision = claim.run, claim.task.revision
    return Settlement(
        run.id, run.attempt, revision, State.SUCCEEDED, EventKind.SUCCEEDED, "done", summary="nothing", claim=claim
    )


class Steps:
    """The four steps of one database, each timed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.micros: dict[str, list[float]] = {}

    def round(self, runs: int, batch: int) -> None:
        """Take `runs` runs through all of it, `batch` at a time."""
        now = self._store.now()
        new = [new_task(now) for _ in range(runs)]
        claims: list[Claim] = []

        with self._timed(f"add x{batch}", runs):
            for part in parts(new, batch):
                self._store.tasks.add_many(part)
        with self._timed(f"make_ready x{batch}", runs):
            ready = [run.run_id for _ in parts(new, batch) for run in self._store.claims.make_ready(limit=batch)]
        with self._timed(f"start x{batch}", runs):
            for ids in parts(ready, batch):
                claims += self._store.claims.start(
                    [Start(run_id, new_id("n")) for run_id in ids], worker="w", epoch=None, lease=LEASE
                )
        ended = [done(claim) for claim in claims]
        with self._timed(f"settle x{batch}", runs):
            for settlements in parts(ended, batch):
                self._store.claims.settle(settlements)
        assert len(ended) == runs

    def schedule(self, calls: int) -> None:
        """Add tasks one by one, each under a key of its own."""
        now = self._store.now() + timedelta(days=1)
        new = [(new_task(now), IdempotencyKey(new_id("k"), {"title": "Benchmark"})) for _ in range(calls)]
        with self._timed("schedule", calls):
            for each, key in new:
                self._store.tasks.add(each.task, each.run, actor="benchmark", key=key)

    def updates(self) -> list[int]:
        """Return how many updates of runs PostgreSQL has counted, and how many of them were HOT."""
        time.sleep(STATISTICS_DELAY_S)
        asked = text("SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'runs'")
        return list(self._store._database.read(lambda it: it.execute(asked).one()))  # noqa: SLF001 - no door counts them

    @contextmanager
    def _timed(self, name: str, runs: int) -> Iterator[None]:
        gc.collect()
        began = time.perf_counter()
        yield
        self.micros.setdefault(name, []).append((time.perf_counter() - began) / runs * 1e6)


def parts(whole: list[T], size: int) -> list[list[T]]:
    return [whole[i : i + size] for i in range(0, len(whole), size)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8, 64, 256])
    parser.add_argument("--database", choices=["all", "sqlite", "postgres"], default="all")
    asked = parser.parse_args()
    with ExitStack() as stack:
        measured = {name: Steps(store) for name, store in stores(stack, asked.database)}
        for number in range(asked.rounds + 1):
            for steps in measured.values():  # in turn, so that what else the machine does meets both
                for batch in asked.batches:
                    steps.round(max(batch, asked.runs), batch)
                steps.schedule(asked.runs // 4)
                if number == 0:
                    steps.micros.clear()  # the first round warms up
        print(json.dumps({name: medians(steps) for name, steps in measured.items()}, indent=1))
        if "postgres" in measured:
            print(
                json.dumps({"updates of runs, and those of them that wrote no index": measured["postgres"].updates()})
            )


def medians(steps: Steps) -> dict[str, float]:
    return {name: round(statistics.median(found)) for name, found in steps.micros.items()}


def stores(stack: ExitStack, wanted: str) -> Iterator[tuple[str, Store]]:
    makers: dict[str, Callable[[], str]] = {
        "sqlite": lambda: f"sqlite:///{stack.enter_context(tempfile.TemporaryDirectory())}/bench.db",
        "postgres": lambda: stack.enter_context(
            services.postgres_database(stack.enter_context(services.postgres_server()))
        ),
    }
    for name, url in makers.items():
        if wanted in {"all", name}:
            store = open_store(url(), synchronous="OFF")
            stack.callback(store.close)
            yield name, store


if __name__ == "__main__":
    main()

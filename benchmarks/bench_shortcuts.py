"""Measure what two shortcuts buy a backlog of no-op runs: claiming ahead, and statements without a transaction.

    python benchmarks/bench_shortcuts.py [--tasks 4000] [--rounds 5]

`bench_drain.py`'s ways of Duetime, in turn with the same without one shortcut. That one is replaced in the process that
is measured: no setting turns it off. A shortcut that does not pay by 10 % is not worth its code. Nothing waits for a
disk.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from duetime.scheduler.store.database.database import Tried
from duetime.scheduler.store.database.postgres import Postgres
from duetime.scheduler.worker import capacity

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_drain import WAYS
from tests import services


def claim_ahead() -> None:
    """Claim no more runs than threads are idle."""
    capacity.MAX_RUNS_AHEAD_PER_THREAD = 0


def single_statements() -> None:
    """Store everything the careful way: BEGIN, locks, what is read behind them, COMMIT."""
    Postgres.attempt = lambda _self, _work: Tried()  # type: ignore[assignment] # it tries nothing, whatever the work


SHORTCUTS: dict[str, Callable[[], None]] = {"claim-ahead": claim_ahead, "single-statements": single_statements}
MEASURED = (
    ("embedded", ""),
    ("embedded", "claim-ahead"),
    ("distributed", ""),
    ("distributed", "claim-ahead"),
    ("distributed", "single-statements"),
)


def rate(way: str, without: str, redis: str, database: str, tasks: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--way", way, "--without", without, "--redis", redis, "--postgres", database, "--folder", folder]
        command = [sys.executable, __file__, "--tasks", str(tasks), *options]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=180)
    return float(json.loads(done.stdout.splitlines()[-1]))


def compare(options: argparse.Namespace) -> None:
    rates: dict[tuple[str, str], list[float]] = {each: [] for each in MEASURED}
    with ExitStack() as stack:
        redis = stack.enter_context(services.valkey_server())
        postgres = stack.enter_context(services.postgres_server())
        for number in range(options.rounds):
            for (way, without), found in rates.items():
                with services.postgres_database(postgres) as database:
                    found.append(rate(way, without, redis, database, options.tasks))
            print(f"round {number + 1}:", [round(found[-1]) for found in rates.values()], "a second", flush=True)
    for (way, without), found in rates.items():
        if without:
            gains = [full / less for full, less in zip(rates[way, ""], found, strict=True)]
            spread = f"{min(gains):.2f} to {max(gains):.2f}"
            print(f"{way}: {without} buys {statistics.median(gains):.2f} times as many a second (median; {spread})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--without", default="", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    for name in ("--redis", "--postgres"):
        parser.add_argument(name, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        SHORTCUTS.get(options.without, lambda: None)()
        print(json.dumps(options.tasks / WAYS[options.way](options)))
    else:
        compare(options)


if __name__ == "__main__":
    main()

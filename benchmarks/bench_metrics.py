"""Measure what metrics add to each event of a run, on the thread that stored it, and what a scrape costs.

    python benchmarks/bench_metrics.py [--rounds 9]

Batches of 64 starts and 64 ends, as a busy worker stores them, go to the log alone and to log and metrics, in turn.
The figure is the median of the rounds, in microseconds an event.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from duetime.scheduler.outcomes import Done
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Claim, Settlement
from duetime.scheduler.runtime.notifier import RunNotifier, Subscriber
from duetime.scheduler.task import Tier
from duetime.server.app import App, build
from duetime.server.settings.model import Settings
from duetime.server.telemetry.metrics.metrics import Metrics

CALLS_PER_BATCH = 64
BATCH_COUNT = 200


def claims(app: App) -> list[Claim]:
    """Return claims of runs of several tiers, with a deadline and a pool."""
    found = []
    for number in range(CALLS_PER_BATCH):
        tier = list(Tier)[number % 5]
        record = app.scheduler.schedule(f"Task {number}", when="in 1 hour", deadline="2 hours", priority=tier).record
        run = replace(record.run, attempt=1, started_at=record.run.scheduled_for)
        found.append(Claim(run, record.task, "w", {"gpu": 1}))
    return found


def measured(subscribers: list[Subscriber], started: list[Claim], ended: list[Settlement]) -> float:
    """Return the microseconds that an event takes."""
    notifier = RunNotifier(subscribers=subscribers)
    began = time.perf_counter()
    for _ in range(BATCH_COUNT):
        notifier.started(started)
        notifier.settled(ended)
    return (time.perf_counter() - began) / (2 * CALLS_PER_BATCH * BATCH_COUNT) * 1e6


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="duetime-bench-") as folder:
        url = f"sqlite:///{Path(folder) / 'duetime.db'}"
        settings = Settings.model_validate({"database_url": url, "timezone": "UTC", "desktop_notifications": "off"})
        with build(settings) as app:
            plain = list(app.observers.runs)
            metrics = Metrics(app, settings, role="work")
            started = claims(app)
            now = app.store.now() + timedelta(hours=1)
            ended = [replace(settle(claim, Done("ok"), now=now, jitter=0.0), used={"gpu": 1.0}) for claim in started]
            figures: dict[str, list[float]] = {"log": [], "log and metrics": []}
            for _ in range(rounds):
                figures["log"].append(measured(plain, started, ended))
                figures["log and metrics"].append(measured(app.observers.runs, started, ended))
            text, scrapes = b"", []
            for _ in range(rounds):
                began = time.perf_counter()
                text, _ = metrics.text()
                scrapes.append((time.perf_counter() - began) * 1e3)
    each = {name: statistics.median(values) for name, values in figures.items()}
    for name, value in each.items():
        print(f"{name}: {value:.2f} us an event ({min(figures[name]):.2f} to {max(figures[name]):.2f})")
    print(f"metrics add {each['log and metrics'] - each['log']:.2f} us an event; the aim is below 10 us")
    print(
        f"a scrape: {statistics.median(scrapes):.1f} ms, {len(text):,} bytes; the first, which reads, {scrapes[0]:.1f}"
    )


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rounds", type=int, default=9)
    main(options.parse_args().rounds)

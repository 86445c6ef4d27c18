"""Cost of overload on a real installation: the traces of `bench_overload.py` in short, run by processes and threads.

    python benchmarks/bench_overload_real.py [--way embedded shared] [--seconds 60] [--seed 1]

The classes, loads and deadlines are those of `bench_overload.py` at a sixth of their lengths. Background deadlines are
20 to 40 s and bursts 25 s, so that a minute is enough. `embedded` is one process of eight threads with SQLite and the
queue in memory. `shared` is a server, a worker process of eight threads, PostgreSQL and Redis. Handlers sleep. Each run
is scheduled when it arrives, with a hard deadline. `simulated` is the same trace through the queue in memory on a
virtual clock, where nothing takes time but the handlers. The difference is what the real path loses, and a line below
says where. Read README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from duetime.scheduler.handlers import Context, Handler, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.store import migrate_store
from duetime.server.app import App, Role, build
from duetime.server.settings.model import Settings
from pydantic import BaseModel

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_overload import KINDS, POLICIES, THREAD_COUNT, Job, Kind, Trace, always, bound, in_time, value
from tests import services

SCALE_RATIO = 1 / 6
BURST_S = 25.0
TAIL_S = 20.0
LEAD_S = 1.0


class Sleep(BaseModel):
    """The payload of a run: how long it takes, and which job it is."""

    job: str
    seconds: float


@dataclass
class Outcome:
    """When the trace and each job began and ended, in seconds of the wall clock; how late each call returned."""

    origin: float = 0.0
    began: dict[str, float] = field(default_factory=dict)
    ended: dict[str, float] = field(default_factory=dict)
    lags: list[float] = field(default_factory=list)

    def note(self, what: str, job: str, at: float) -> None:
        (self.began if what == "began" else self.ended)[job] = at


Note = Callable[[str, str, float], None]


def short(kind: Kind, allowed: float) -> Kind:
    return replace(kind, length=kind.length * SCALE_RATIO, allowed=allowed * SCALE_RATIO)


USUAL = tuple(short(kind, allowed) for kind, allowed in zip(KINDS, (15, 120, 180), strict=True))
CROSSED = tuple(short(kind, allowed) for kind, allowed in zip(KINDS, (15, 180, 120), strict=True))


def bursts(at: float) -> float:
    return 1.0 if at % (2 * BURST_S) < BURST_S else 0.5


TRACES = (
    Trace("bursts at 1.2", (0.3, 0.4, 0.5), bursts, USUAL),
    Trace("overload of 1.6", (0.3, 0.8, 0.5), always, USUAL),
    Trace("crossed, bursts at 1.2", (0.3, 0.4, 0.5), bursts, CROSSED),
    Trace("crossed, overload of 1.6", (0.3, 0.8, 0.5), always, CROSSED),
)


def handlers(note: Note) -> list[Handler]:
    return [_handler(kind, note) for kind in USUAL]


def _handler(kind: Kind, note: Note) -> Handler:
    @handler(kind.name, payload=Sleep, estimate=kind.length)
    def run(_: Context, payload: Sleep) -> Done:
        """Sleep, and say when."""
        note("began", payload.job, time.time())
        time.sleep(payload.seconds)
        note("ended", payload.job, time.time())
        return Done("slept")

    return run


def settings(url: str, redis: str | None = None) -> Settings:
    return Settings(database_url=url, redis_url=redis, timezone="UTC", threads=THREAD_COUNT, yield_to_load=False)


@contextmanager
def embedded() -> Iterator[tuple[App, Outcome]]:
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        made = settings(f"sqlite:///{folder}/bench.db").model_copy(update={"data_dir": Path(folder)})
        with build(made, handlers=handlers(outcome.note)) as app:
            app.start()
            time.sleep(2)
            yield app, outcome


@contextmanager
def shared() -> Iterator[tuple[App, Outcome]]:
    outcome = Outcome()
    with ExitStack() as stack:
        redis = stack.enter_context(services.valkey_server())
        server = stack.enter_context(services.postgres_server())
        postgres = stack.enter_context(services.postgres_database(server))
        migrate_store(postgres)
        command = [sys.executable, __file__, "--worker", "--postgres", postgres, "--redis", redis]
        worker = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        )
        listener = threading.Thread(target=listen, args=(worker, outcome), daemon=True)
        listener.start()
        app = stack.enter_context(build(settings(postgres, redis), role=Role.SERVE, handlers=handlers(outcome.note)))
        app.start()
        time.sleep(4)
        yield app, outcome
        assert worker.stdin is not None
        worker.stdin.close()
        listener.join(10)


def listen(worker: subprocess.Popen[str], outcome: Outcome) -> None:
    assert worker.stdout is not None
    for line in worker.stdout:
        what, job, at = line.split()
        outcome.note(what, job, float(at))


def work(options: argparse.Namespace) -> None:
    """Be the worker process until the standard input ends."""

    def said(what: str, job: str, at: float) -> None:
        os.write(1, f"{what} {job} {at:.6f}\n".encode())

    with build(settings(options.postgres, options.redis), role=Role.WORK, handlers=handlers(said)) as app:
        app.start()
        sys.stdin.read()


def play(app: App, jobs: Sequence[Job], outcome: Outcome) -> None:
    """Schedule each job when it arrives, and wait until the last deadline that counts."""
    began = outcome.origin = time.time() + LEAD_S
    origin = app.store.now() + timedelta(seconds=began - time.time())
    for job in jobs:
        time.sleep(max(0.0, began + job.arrives - time.time()))
        app.scheduler.schedule(
            job.id,
            action=job.kind.name,
            payload={"job": job.id, "seconds": job.length},
            priority=job.kind.tier.value,
            deadline=origin + timedelta(seconds=job.deadline),
            deadline_type="hard",
        )
        outcome.lags.append(time.time() - began - job.arrives)
    last = max(job.deadline + job.length for job in jobs if job.counted)
    time.sleep(max(0.0, began + last + 1 - time.time()))


def report(trace: Trace, jobs: Sequence[Job], way: str, outcome: Outcome) -> str:
    met = {job.id for job in jobs if outcome.ended.get(job.id, math.inf) - outcome.origin <= job.deadline}
    counted = [job for job in jobs if job.counted]
    parts = " | ".join(f"{value(jobs, met, kind):.3f}" for kind in trace.kinds)
    late = sum(job.id in outcome.ended and job.id not in met for job in counted)
    never = sum(job.id not in outcome.began for job in counted)
    over = [outcome.ended[job.id] - outcome.began[job.id] - job.length for job in jobs if job.id in outcome.ended]
    median, most = 1000 * statistics.median(outcome.lags), 1000 * quantile(outcome.lags, 0.99)
    return (
        f"| {way} | {value(jobs, met):.3f} | {parts} |\n"
        f"    {len(counted)} runs count: {never} never began, {late} ended late; calls returned {median:.0f} ms (p50) "
        f"and {most:.0f} ms (p99) after the arrival; sleeps took {1000 * statistics.fmean(over):.0f} ms longer; "
        f"threads were busy for {busy(jobs, outcome):.0%} of the trace"
    )


def busy(jobs: Sequence[Job], outcome: Outcome) -> float:
    """Return the part of the threads' time that handlers had until the last arrival."""
    end = outcome.origin + max(job.arrives for job in jobs)
    spans = (min(outcome.ended.get(job, end), end) - min(at, end) for job, at in outcome.began.items())
    return sum(spans) / (THREAD_COUNT * (end - outcome.origin))


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


WAYS = {"embedded": embedded, "shared": shared}


def compare(options: argparse.Namespace) -> None:
    for trace in TRACES:
        if options.trace and options.trace not in trace.name:
            continue
        jobs = trace.jobs(options.seconds, options.seed, TAIL_S)
        print(
            f"\n{trace.name}: {len(jobs)} runs\n\n| way | value in time | {' | '.join(k.name for k in trace.kinds)} |"
        )
        print("|---|---|---|---|---|")
        for name in ("EDF", "ours"):
            met = in_time(jobs, POLICIES[name]())
            parts = " | ".join(f"{value(jobs, met, kind):.3f}" for kind in trace.kinds)
            print(f"| {'simulated' if name == 'ours' else name} | {value(jobs, met):.3f} | {parts} |", flush=True)
        for way in options.way:
            with WAYS[way]() as (app, outcome):
                play(app, jobs, outcome)
                print(report(trace, jobs, way, outcome), flush=True)
        print(f"| no order exceeds | {bound(jobs):.3f} | | | |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--trace", default="", help="only traces whose name has this")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--postgres", help=argparse.SUPPRESS)
    parser.add_argument("--redis", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()

"""Lateness of starts with PostgreSQL and Redis: one process serves, another works; plain Dramatiq in turn.

    python benchmarks/bench_start_shared.py [--calls 50] [--rounds 3] [--pending 100000] [--burst 1000]

`idle`: one task at a time on an idle installation, 0.3 to 1.5 s apart. This process is the server: it calls
`schedule(...)`, stores, makes due and puts into the queue. A worker process of 16 threads is notified and starts it.
From the call, and from its return, to the first line of the handler in the worker. Plain Dramatiq is its RedisBroker
with default settings: `send()` here, an actor in another process; from before the call and from its return as well.

`burst`: many tasks due at one second, `--pending` others waiting. It shows the lateness of each handler's first line,
and the memory of the worker before and after. It also shows what the idle worker and its database cost over ten
seconds.

Both servers come from the wheels of the tests, without waiting for a disk. Read README.md before quoting a number.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import dramatiq
import psutil
from duetime.scheduler.handlers import Context, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.store import migrate_store
from duetime.server.app import App, Role, build
from duetime.server.runtime.garbage import collect_less
from duetime.server.settings.model import Settings

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_drain import plain_broker
from benchmarks.bench_start import mark, new_task, quantile, until
from tests import services

START_GAP_S = (0.3, 1.5)
"""Seconds between two calls, at random: idle workers of Dramatiq ask ever less often, up to once a second."""

PATIENCE_S = 60.0


def said(name: str) -> None:
    """Report to the process that measures what starts now: one write of one line, so that threads do not mix."""
    os.write(1, f"{time.time():.6f} {name}\n".encode())


@handler("mark")
def told(ctx: Context) -> Done:
    """Say that it started, and do nothing."""
    said(ctx.task_id)
    return Done("marked")


def settings(postgres: str, redis: str) -> Settings:
    return Settings(database_url=postgres, redis_url=redis, timezone="UTC", threads=16, yield_to_load=False)


def worker(options: argparse.Namespace) -> None:
    """Be the worker process until the standard input ends."""
    with build(settings(options.postgres, options.redis), role=Role.WORK, handlers=[told]) as app:
        collect_less()  # as each process of Duetime does that runs tasks
        app.start()
        said("ready")
        sys.stdin.read()


def plain_worker(options: argparse.Namespace) -> None:
    running = dramatiq.Worker(_plain(options.redis).broker, worker_threads=16)
    running.start()
    said("ready")
    sys.stdin.read()
    running.stop()


def _plain(redis: str) -> dramatiq.Actor[[str], None]:
    broker = plain_broker(url=redis, namespace="plain")
    return dramatiq.actor(broker=broker, actor_name="said")(said)


class Started:
    """Lines that a worker process prints, each with its time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.at: dict[str, float] = {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            at, name = line.split()
            self.at[name] = float(at)

    def wait(self, condition: Callable[[], bool], pause: float = 0.0005) -> None:
        give_up = time.monotonic() + PATIENCE_S
        until(lambda: condition() or time.monotonic() > give_up or self.process.poll() is not None, pause)
        assert condition(), "nothing started within a minute"


@contextmanager
def working(way: str, postgres: str, redis: str) -> Iterator[Started]:
    command = [sys.executable, __file__, "--way", way, "--postgres", postgres, "--redis", redis]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        started = Started(process)
        started.wait(lambda: "ready" in started.at)
        time.sleep(1)
        yield started
        assert process.stdin is not None
        process.stdin.close()


def idle(started: Started, call: Callable[[int], str], calls: int) -> tuple[list[float], list[float]]:
    """Return how long after each call, and after its return, the worker began."""
    since_call, since_return = [], []
    for number in range(calls):
        called = time.time()
        name = call(number)
        returned = time.time()
        started.wait(partial(started.at.__contains__, name))
        since_call.append(started.at[name] - called)
        since_return.append(started.at[name] - returned)
        time.sleep(random.uniform(*START_GAP_S))
    return since_call, since_return


def plain_idle(redis: str, calls: int) -> tuple[list[float], list[float]]:
    actor = _plain(redis)

    def send(number: int) -> str:
        actor.send(str(number))
        return str(number)

    with working("plain", "", redis) as started:
        return idle(started, send, calls)


def shared_idle(app: App, postgres: str, redis: str, calls: int) -> tuple[list[float], list[float]]:
    def schedule(number: int) -> str:
        return app.scheduler.schedule(f"Idle {number}", action="mark").record.task.id

    with working("shared", postgres, redis) as started:
        return idle(started, schedule, calls)


def burst(app: App, postgres: str, redis: str, size: int) -> str:
    with working("shared", postgres, redis) as started:
        process = psutil.Process(started.process.pid)
        before, cost = process.memory_info().rss, _idle_cost(process)
        due = (app.store.now() + timedelta(seconds=4)).replace(microsecond=0)
        new = [new_task(app.store, due) for _ in range(size)]
        app.store.tasks.add_many(new)
        app.runner.wake()
        names = {each.task.id for each in new}
        started.wait(lambda: names <= started.at.keys(), pause=0.05)
        late = [started.at[name] - due.timestamp() for name in names]
        grown = (process.memory_info().rss - before) / 2**20
    figures = ", ".join(f"p{part * 100:g} {quantile(late, part):.0f} ms" for part in (0.5, 0.99, 1))
    return f"{figures}; worker {before / 2**20:.0f} MB, {grown:+.1f} MB after; idle {cost:.2f} % of a core"


def _idle_cost(process: psutil.Process, seconds: float = 10) -> float:
    time.sleep(2)
    before = process.cpu_times()
    time.sleep(seconds)
    after = process.cpu_times()
    return 100 * (after.user + after.system - before.user - before.system) / seconds


def fill(app: App, pending: int) -> None:
    soon = app.store.now() + timedelta(days=1)
    for start in range(0, pending, 2000):
        app.store.tasks.add_many(
            [new_task(app.store, soon + timedelta(seconds=n)) for n in range(start, min(start + 2000, pending))]
        )


def line(way: str, measured: tuple[list[float], list[float]]) -> str:
    call, back = measured
    return (
        f"{way:7} from the call: p50 {quantile(call, 0.5)}, p99 {quantile(call, 0.99)} ms; "
        f"from its return: p50 {quantile(back, 0.5)}, p99 {quantile(back, 0.99)} ms"
    )


def compare(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        redis = stack.enter_context(services.valkey_server())
        server = stack.enter_context(services.postgres_server())
        postgres = stack.enter_context(services.postgres_database(server))
        migrate_store(postgres)
        app = stack.enter_context(build(settings(postgres, redis), handlers=[mark]))
        collect_less()
        app.start()
        found: dict[str, tuple[list[float], list[float]]] = {"plain": ([], []), "shared": ([], [])}
        for number in range(options.rounds):
            for way, all_found in found.items():
                if way == "plain":
                    measured = plain_idle(redis, options.calls)
                else:
                    measured = shared_idle(app, postgres, redis, options.calls)
                for kind, new in zip(all_found, measured, strict=True):
                    kind.extend(new)
                print(f"round {number + 1}", line(way, measured), flush=True)
        ratio = statistics.median(found["plain"][0]) / statistics.median(found["shared"][0])
        for way, measured in found.items():
            print("all    ", line(way, measured))
        print(f"median from the call: plain Dramatiq takes {ratio:.0f} times as long")
        fill(app, options.pending)
        print(f"{options.pending} pending, {options.burst} due at one second:")
        for _ in range(options.rounds):
            print("burst  ", burst(app, postgres, redis, options.burst), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--pending", type=int, default=100_000)
    parser.add_argument("--burst", type=int, default=1000)
    for hidden in ("--way", "--postgres", "--redis"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    ways = {"shared": worker, "plain": plain_worker, None: compare}
    ways[options.way](options)


if __name__ == "__main__":
    main()

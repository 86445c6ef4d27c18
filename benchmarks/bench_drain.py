"""Drain of a backlog of no-op tasks: the whole path against plain Dramatiq, in turn.

    python benchmarks/bench_drain.py [--tasks 4000] [--rounds 5] [--only embedded distributed]

`plain` is Dramatiq as it comes: its RedisBroker, its default middleware, an actor that does nothing. `embedded` is
Duetime with SQLite and the queue in memory, `distributed` with PostgreSQL and Redis. Each task is made ready, ordered,
taken, claimed as an attempt, run, and settled with its event, its message and its history. Each is one process with 8
threads; nothing waits for a disk (Redis without persistence, synchronous=OFF, fsync=off), and all stores lie on the
same disk. A round measures each of them once, in a fresh process, from the start of the workers to the last end. Read
README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from threading import Event

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.ids import new_id, new_task_id
from duetime.scheduler.nodes.engine import Engine
from duetime.scheduler.nodes.member import Member
from duetime.scheduler.nodes.runner import Runner, RunnerOptions
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue import DispatchQueue
from duetime.scheduler.records import NewTask
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import RetryPolicy, Run, State, Task
from duetime.scheduler.views import TaskFilter
from duetime.scheduler.worker.worker import WorkerOptions
from duetime.server.distributed import connected
from duetime.server.runtime.garbage import collect_less

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests import services

THREAD_COUNT = 8
plain_broker: Callable[..., dramatiq.Broker] = RedisBroker


@handler("nothing")
def nothing(ctx: Context) -> Done:  # noqa: ARG001 - a handler takes it
    """Do nothing."""
    return Done()


def new_task(due: datetime) -> NewTask:
    task = Task(
        id=new_task_id(),
        tenant="local",
        owner="local",
        title="Benchmark",
        action="nothing",
        payload={},
        timezone="UTC",
        when="now",
        repeat=None,
        anchor=due,
        until=None,
        max_runs=None,
        paused=False,
        retry=RetryPolicy(),
        deliver_to=("inbox",),
        labels=(),
        revision=1,
        created_at=due,
        updated_at=due,
    )
    return NewTask(task, Run(new_id("r"), task.id, "local", due, State.SCHEDULED, wake_at=due), actor="benchmark")


def plain(options: argparse.Namespace) -> float:
    """Return the seconds that plain Dramatiq takes."""
    broker = plain_broker(url=options.redis, namespace="plain")
    done, left = Event(), [options.tasks]

    @dramatiq.actor(broker=broker)
    def act() -> None:
        left.append(0)  # atomic, unlike a counter
        if len(left) > options.tasks:
            done.set()

    for _ in range(options.tasks):
        act.send()
    worker = dramatiq.Worker(broker, worker_threads=THREAD_COUNT)
    began = time.perf_counter()
    worker.start()
    done.wait(120)
    worker.join()
    took = time.perf_counter() - began
    worker.stop()
    return took


def _drained(store: Store, start: Callable[[Callable[[Sequence[str]], None]], Callable[[], None]], tasks: int) -> float:
    """Fill the store, start a crew, and return the seconds until it has settled everything."""
    now = store.now()
    for begin in range(0, tasks, 1000):
        store.tasks.add_many([new_task(now) for _ in range(begin, min(begin + 1000, tasks))])
    collect_less()  # as `duetime` does when it starts
    told, done = [0], Event()

    def changed(task_ids: Sequence[str]) -> None:
        told[0] += len(task_ids)
        if told[0] >= 3 * tasks:  # made ready, started, settled
            done.set()

    began = time.perf_counter()
    stop = start(changed)
    done.wait(120)
    took = time.perf_counter() - began
    stop()
    ended = store.tasks.counts("local", TaskFilter())
    assert ended.get(State.SUCCEEDED) == tasks, ended
    return took


def embedded(options: argparse.Namespace) -> float:
    """Return the seconds that Duetime takes with SQLite and the queue in memory."""
    store = open_store(f"sqlite:///{options.folder}/bench.db", synchronous="OFF")

    def start(changed: Callable[[Sequence[str]], None]) -> Callable[[], None]:
        runner = Runner(
            store,
            Handlers([nothing]),
            RunnerOptions(options.folder / "lock", threads=THREAD_COUNT),
            notifier=RunNotifier(changed),
        )
        runner.start()
        return runner.stop

    took = _drained(store, start, options.tasks)
    store.close()
    return took


def crew_of(
    store: Store,
    redis: str,
    changed: Callable[[Sequence[str]], None] = lambda _: None,
    *,
    handlers: Sequence[Handler] = (nothing,),
    threads: int = THREAD_COUNT,
) -> Member:
    """Return a worker process of many, as `duetime worker` puts it together; it runs tasks from `start` to `stop`."""
    registry = PoolRegistry(store)
    placement = Placement(registry.known)

    def make_engine(queue: DispatchQueue) -> Engine:
        options = WorkerOptions("bench", threads)
        return Engine(store, queue, Handlers(handlers), options, placement=placement, notifier=RunNotifier(changed))

    return Member(
        store,
        connected(redis, new_id("n"), ""),
        registry,
        placement=placement,
        name="bench",
        make_engine=make_engine,
        grace=timedelta(seconds=5),
    )


def distributed(options: argparse.Namespace) -> float:
    """Return the seconds that Duetime takes with PostgreSQL and Redis, as one process of many."""
    store = open_store(options.postgres)

    def start(changed: Callable[[Sequence[str]], None]) -> Callable[[], None]:
        member = crew_of(store, options.redis, changed)
        member.start()
        return member.stop

    took = _drained(store, start, options.tasks)
    store.close()
    return took


WAYS = {"plain": plain, "embedded": embedded, "distributed": distributed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[name for name in WAYS if name != "plain"])
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--redis", help=argparse.SUPPRESS)
    parser.add_argument("--postgres", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(options.tasks / WAYS[options.way](options)))
    else:
        compare(options)


def compare(options: argparse.Namespace) -> None:
    with ExitStack() as stack:
        redis = stack.enter_context(services.valkey_server())
        postgres = stack.enter_context(services.postgres_server()) if "distributed" in options.only else ""
        rates: dict[str, list[float]] = {}
        for number in range(options.rounds):
            for way in ("plain", *options.only):
                with ExitStack() as each:
                    folder = each.enter_context(tempfile.TemporaryDirectory())
                    database = each.enter_context(services.postgres_database(postgres)) if postgres else ""
                    rates.setdefault(way, []).append(_measured(way, folder, redis, database, options.tasks))
            print(
                f"round {number + 1}:", {way: round(found[-1]) for way, found in rates.items()}, "a second", flush=True
            )
        for way in options.only:
            ratios = [ours / theirs for ours, theirs in zip(rates[way], rates["plain"], strict=True)]
            spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
            print(f"{way}: {statistics.median(ratios):.2f} times plain Dramatiq (median; {spread})")


def _measured(way: str, folder: str, redis: str, database: str, tasks: int) -> float:
    command = [sys.executable, __file__, "--way", way, "--folder", folder, "--redis", redis, "--tasks", str(tasks)]
    done = subprocess.run([*command, "--postgres", database], check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    main()

"""Does a process stay as it is? Memory, open files and threads over 10,000 tasks, embedded and distributed.

    python benchmarks/bench_soak.py [--tasks 10000] [--only embedded distributed]

A process runs 2,000 tasks to warm up, then 10,000 more, 500 at a time, all of which write a result and a message. Its
resident memory, open files and threads are read after the warm-up, half-way and at the end, each after a collection.
Read README.md next to this file before quoting a number.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event

import psutil
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.nodes.runner import Runner, RunnerOptions
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_drain import THREAD_COUNT, crew_of, new_task, nothing
from tests import services

WARM_UP_COUNT = 2000
TASKS_PER_BATCH = 500
PATIENCE_S = 120.0


class Ended:
    """Counts the events of a worker: each run has one when it is ready, started and settled."""

    def __init__(self) -> None:
        self._told = 0
        self._wanted = 0
        self._done = Event()

    def tell(self, task_ids: Sequence[str]) -> None:
        self._told += len(task_ids)
        if self._told >= self._wanted:
            self._done.set()

    def expect(self, runs: int) -> None:
        self._wanted += 3 * runs
        self._done.clear()

    def wait(self) -> None:
        assert self._done.wait(PATIENCE_S), "the tasks did not end within two minutes"


@contextmanager
def embedded(_options: argparse.Namespace, ended: Ended) -> Iterator[tuple[Store, Callable[[], None]]]:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/bench.db", synchronous="OFF")
        runner = Runner(
            store,
            Handlers([nothing]),
            RunnerOptions(Path(folder) / "lock", threads=THREAD_COUNT),
            notifier=RunNotifier(ended.tell),
        )
        runner.start()
        yield store, runner.wake
        runner.stop()
        store.close()


@contextmanager
def distributed(options: argparse.Namespace, ended: Ended) -> Iterator[tuple[Store, Callable[[], None]]]:
    store = open_store(options.postgres)
    member = crew_of(store, options.redis, ended.tell)
    member.start()
    yield store, member.wake
    member.stop(timedelta(seconds=5))
    store.close()


WAYS = {"embedded": embedded, "distributed": distributed}


def measure(options: argparse.Namespace) -> None:
    ended, me = Ended(), psutil.Process()
    with WAYS[options.way](options, ended) as (store, wake):
        first, ran = 0.0, 0
        for tasks in (WARM_UP_COUNT, options.tasks // 2, options.tasks // 2):
            _run(store, wake, ended, tasks)
            ran += tasks
            memory, files, threads = _state(me)
            first = first or memory
            grown = f"{memory:.1f} MB ({100 * (memory / first - 1):+.1f} %)"
            print(f"{options.way}: after {ran:6} tasks: {grown}, {files} files, {threads} threads", flush=True)
        assert store.tasks.counts("local", TaskFilter()).get(State.SUCCEEDED) == ran


def _run(store: Store, wake: Callable[[], None], ended: Ended, tasks: int) -> None:
    for _ in range(tasks // TASKS_PER_BATCH):
        ended.expect(TASKS_PER_BATCH)
        now = store.now()
        store.tasks.add_many([new_task(now) for _ in range(TASKS_PER_BATCH)])
        wake()
        ended.wait()


def _state(me: psutil.Process) -> tuple[float, int, int]:
    time.sleep(2)
    gc.collect()
    return me.memory_info().rss / 2**20, me.num_fds(), me.num_threads()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--only", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    for hidden in ("--redis", "--postgres"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        measure(options)
        return
    with ExitStack() as stack:
        redis = stack.enter_context(services.valkey_server())
        server = stack.enter_context(services.postgres_server())
        database = stack.enter_context(services.postgres_database(server))
        for way in options.only:
            command = [sys.executable, __file__, "--way", way, "--tasks", str(options.tasks)]
            subprocess.run([*command, "--redis", redis, "--postgres", database], check=True)


if __name__ == "__main__":
    main()

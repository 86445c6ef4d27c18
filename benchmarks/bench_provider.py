"""Runs close to a provider's limits, none of them refused: 400 calls of 60 ms, 50 a second, 5 in flight.

    python benchmarks/bench_provider.py [--calls 400] [--rounds 3] [--only embedded distributed]

The provider counts calls in every sliding second, and those in flight, and refuses what is above either. Duetime has it
as two pools: 5 slots, and 50 in any second, the limits as they are. Nothing could be faster than 7.6 s: the last
call is 350 behind the 50th, at 50 a second. Embedded: SQLite on disk, 16 threads, one process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from duetime.scheduler.dispatch.pool_registry import PoolRegistry
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.nodes.member import Member
from duetime.scheduler.nodes.runner import Runner, RunnerOptions
from duetime.scheduler.outcomes import Done, Retry
from duetime.scheduler.records import NewTask
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.views import TaskFilter

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_drain import crew_of, new_task
from benchmarks.peers.provider import CALLS_PER_S, MAX_CALLS_IN_FLIGHT, Provider
from tests import services

THREAD_COUNT = 16


@contextmanager
def embedded(ask: Handler, _servers: ExitStack) -> Iterator[tuple[Store, Runner]]:
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/bench.db", synchronous="FULL")
        declare(store)
        yield store, Runner(store, Handlers([ask]), RunnerOptions(Path(folder) / "lock", threads=THREAD_COUNT))
        store.close()


@contextmanager
def distributed(ask: Handler, servers: ExitStack) -> Iterator[tuple[Store, Member]]:
    redis = servers.enter_context(services.valkey_server())
    server = servers.enter_context(services.postgres_server())
    store = open_store(servers.enter_context(services.postgres_database(server)))
    declare(store)
    yield store, crew_of(store, redis, handlers=[ask], threads=THREAD_COUNT)
    store.close()


Way = Callable[[Handler, ExitStack], AbstractContextManager[tuple[Store, Runner | Member]]]
WAYS: dict[str, Way] = {"embedded": embedded, "distributed": distributed}


def declare(store: Store) -> None:
    registry = PoolRegistry(store)
    registry.set("provider-slots", {"capacity": MAX_CALLS_IN_FLIGHT})
    registry.set("provider-calls", {"kind": "rate", "capacity": CALLS_PER_S, "per": "second", "sliding": True})


def measure(way: str, calls: int) -> str:
    provider, attempts = Provider(), deque[int]()

    @handler("ask", needs={"provider-slots": 1, "provider-calls": 1})
    def ask(ctx: Context) -> Done | Retry:
        """Ask the provider once."""
        attempts.append(ctx.attempt)
        return Done() if provider.call() else Retry("429")

    with ExitStack() as servers, WAYS[way](ask, servers) as (store, runner):
        runner.start()
        time.sleep(1)
        due = store.now() + timedelta(seconds=1)
        needs = {"provider-slots": 1, "provider-calls": 1}
        new = [new_task(due) for _ in range(calls)]
        store.tasks.add_many(
            [NewTask(replace(each.task, action="ask", needs=needs), each.run, "benchmark") for each in new]
        )
        runner.wake()
        give_up = time.monotonic() + 60
        while provider.answered < calls and time.monotonic() < give_up:
            time.sleep(0.01)
        runner.stop()
        states = {str(state): count for state, count in store.tasks.counts("local", TaskFilter()).items()}
    return (
        f"{provider.last - provider.first:.2f} s, {provider.refused} refused, {len(attempts) - calls} wasted attempts, "
        f"at most {provider.most_a_second} in a sliding second and {provider.most_in_flight} in flight; {states}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", choices=WAYS, default=list(WAYS))
    options = parser.parse_args()
    for number in range(options.rounds):
        for way in options.only:
            print(f"round {number + 1}, {way}:", measure(way, options.calls), flush=True)


if __name__ == "__main__":
    main()

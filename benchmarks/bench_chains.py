"""Measure chains: storing a large graph, adding one edge to it, and from an upstream's end to the next run.

    python benchmarks/bench_chains.py [--nodes 10000] [--chains 200] [--only graph edge link unblock]

`graph`: so many tasks in one transaction, in layers of 100; each comes after two of the layer before. `edge`: the
median of 200 calls of `schedule(after=[id])` next to that graph, less that of calls without it. `link`: the median of
200 calls of `reschedule(id, after=[other])` on tasks that stand next to it, whole, and less that of calls that change
labels. `unblock`: chains of two steps on an idle installation, one at a time. The time is from the settlement of the
first to the moment when the second is ready, both as their events have it. SQLite, and PostgreSQL with Redis; servers
are those of the tests, and nothing waits for a disk. Read README.md before quoting a number.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from duetime.scheduler.chain.dependency import Dependency, DependentTask
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Context, handler
from duetime.scheduler.outcomes import Done
from duetime.scheduler.records import NewTask
from duetime.scheduler.store import Store, migrate_store
from duetime.scheduler.task import State
from duetime.server.app import App, Role, build
from duetime.server.settings.model import Settings

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.bench_start import new_task, quantile
from tests import services

TASKS_PER_LAYER = 100
EDGE_COUNT = 200
PATIENCE_S = 30.0


@handler("step")
def step(ctx: Context) -> Done:  # noqa: ARG001 - it does nothing
    """Do nothing."""
    return Done()


@contextmanager
def application(kind: str) -> Iterator[App]:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        urls = {"database_url": f"sqlite:///{folder}/duetime.db"}
        if kind != "sqlite":
            server = stack.enter_context(services.postgres_server())
            postgres = stack.enter_context(services.postgres_database(server))
            migrate_store(postgres)
            urls = {"database_url": postgres, "redis_url": stack.enter_context(services.valkey_server())}
        settings = Settings(**urls, timezone="UTC", threads=16, sqlite_synchronous="OFF", yield_to_load=False)
        yield stack.enter_context(build(settings, role=Role.WORK, handlers=[step]))


def graph(store: Store, nodes: int) -> tuple[float, str]:
    """Store a graph; return the seconds that it took, and the last task of it."""
    due = store.now() + timedelta(days=1)
    items: list[NewTask] = []
    for number in range(nodes):
        new = new_task(store, due + timedelta(seconds=number))
        if number >= TASKS_PER_LAYER:
            above = (
                items[number - TASKS_PER_LAYER].task.id,
                items[number - TASKS_PER_LAYER + (1 if number % TASKS_PER_LAYER + 1 < TASKS_PER_LAYER else -1)].task.id,
            )
            waiting = replace(new.run, state=State.WAITING, wake_at=None)
            new = DependentTask(new.task, waiting, new.actor, after=tuple(map(Dependency, above)))
        items.append(new)
    began = time.perf_counter()
    store.tasks.add_many(items)
    return time.perf_counter() - began, items[-1].task.id


def edge(app: App, upstream: str) -> list[float]:
    """Return the milliseconds of calls that add a task with one edge, less those of calls without one."""

    def timed(call: Callable[[], object]) -> float:
        began = time.perf_counter()
        call()
        return 1000 * (time.perf_counter() - began)

    schedule = app.scheduler.schedule
    alone = statistics.median(timed(partial(schedule, f"Alone {n}", when="in 9 days")) for n in range(EDGE_COUNT))
    return [timed(partial(schedule, f"Edge {n}", after=[upstream])) - alone for n in range(EDGE_COUNT)]


def link(app: App, upstream: str) -> tuple[float, float]:
    """Return the milliseconds in which a standing task gets an edge: of the whole call, and more than other labels."""
    calls: dict[str, list[float]] = {"labels": [], "after": []}
    for number in range(EDGE_COUNT):
        task_id = app.scheduler.schedule(f"Standing {number}", when="in 9 days").record.task.id
        for name, value in (("labels", [f"x{number}"]), ("after", [upstream])):
            began = time.perf_counter()
            app.scheduler.reschedule(task_id, **{name: value})  # type: ignore[arg-type]  # one of the two
            calls[name].append(1000 * (time.perf_counter() - began))
    whole = statistics.median(calls["after"])
    return whole, whole - statistics.median(calls["labels"])


def unblock(app: App, chains: int) -> list[float]:
    """Return the seconds from each settlement to the moment when what comes after is ready."""
    latencies = []
    for number in range(chains):
        steps = [{"name": "first", "action": "step"}, {"name": "second", "action": "step", "after": ["first"]}]
        view = app.scheduler.schedule(f"Chain {number}", steps=steps)  # type: ignore[arg-type]  # plain mappings
        assert view.chain
        app.scheduler.wait(view.chain.id, timeout=timedelta(seconds=PATIENCE_S))
        first, second = (step.task_id for step in view.chain.steps)
        latencies.append(moment(app, second, EventKind.READY) - moment(app, first, EventKind.SUCCEEDED))
    return latencies


def moment(app: App, task_id: str, kind: EventKind) -> float:
    events = app.store.history.events("local", EventFilter(task_id=task_id), limit=20, cursor=None).events
    return next(event.at.timestamp() for event in events if event.kind is kind)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--nodes", type=int, default=10_000)
    arguments.add_argument("--chains", type=int, default=200)
    arguments.add_argument("--only", nargs="*", default=["graph", "edge", "link", "unblock"])
    options = arguments.parse_args()
    for kind in ("sqlite", "postgres and redis"):
        with application(kind) as app:
            if "unblock" in options.only:
                app.start()
                found = unblock(app, options.chains)
                print(f"{kind}: unblock p50 {quantile(found, 0.5)} ms, p99 {quantile(found, 0.99)} ms")
            if {"graph", "edge", "link"} & set(options.only):
                seconds, last = graph(app.store, options.nodes)
                print(f"{kind}: {options.nodes:,} nodes in {seconds:.2f} s")
                if "edge" in options.only:
                    print(f"{kind}: an edge adds {statistics.median(edge(app, last)):.1f} ms (median)")
                if "link" in options.only:
                    whole, more = link(app, last)
                    print(f"{kind}: an edge of a standing task takes {whole:.1f} ms, {more:.1f} ms more than labels")


if __name__ == "__main__":
    main()

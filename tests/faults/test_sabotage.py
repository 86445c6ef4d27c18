"""Bugs in the running product, which the checker has to name: what it reads is what really happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.events import EventKind
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.limits.admission import Limits
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.worker.executor import Executor

from tests.faults.conftest import PATIENCE_S
from tests.faults.invariants import problems
from tests.faults.world import Ground, World
from tests.flow.waiting import eventually

pytestmark = pytest.mark.faults


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("LEDGER", str(tmp_path / "ledger"))
    made = World(tmp_path, Ground(f"sqlite:///{tmp_path}/duetime.db"), backlog=60.0)
    yield made
    made.close()


def found(world: World, patience: float = PATIENCE_S, seconds: float = 0.3) -> set[str]:
    """Run a dozen tasks of so many seconds in this process; return the invariants that did not hold."""
    world.app.start()
    world.schedule(12, needs={"gpu": 1}, payload={"seconds": seconds})
    eventually(world.effects, "the first to have run")
    with suppress(AssertionError):
        eventually(lambda: not world.open_runs() and not any(world.leftovers().values()), "all to end", patience)
    return {problem.invariant for problem in problems(world.record())}


def lose_events(monkeypatch: pytest.MonkeyPatch) -> None:
    append = event_log.append

    def forgetful(connection: Any, entries: Sequence[event_log.EventValues]) -> None:
        append(connection, [entry for entry in entries if entry["kind"] is not EventKind.READY])

    monkeypatch.setattr(event_log, "append", forgetful)


def ignore_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    set_pool = MemoryQueue.set_pool

    def careless(queue: MemoryQueue, name: str, limits: Limits | None, **told: Any) -> None:
        set_pool(queue, name, replace(limits, capacity=limits.capacity * 100) if limits else None, **told)

    monkeypatch.setattr(MemoryQueue, "set_pool", careless)


def drop_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    put = MemoryQueue.put
    dropped: list[str] = []

    def losing(queue: MemoryQueue, entries: Sequence[Entry]) -> int:
        dropped.extend(entry.run_id for entry in entries[:1] if not dropped)
        return put(queue, [entry for entry in entries if entry.run_id not in dropped])

    monkeypatch.setattr(MemoryQueue, "put", losing)


def run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Executor._call

    def eager(execution: Executor, *arguments: Any) -> Any:
        call(execution, *arguments)
        return call(execution, *arguments)

    monkeypatch.setattr(Executor, "_call", eager)


def keep_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryQueue, "finish", lambda *_, **__: set())


BUGS: dict[str, tuple[str, Callable[[pytest.MonkeyPatch], None]]] = {
    "tasks are dropped on their way into the queue": ("I1", drop_tasks),
    "handlers are run twice": ("I2", run_twice),
    "pools are ignored": ("I3", ignore_pools),
    "leases are never given up": ("I4", keep_leases),
    "events are lost": ("I7", lose_events),
}


def test_without_a_bug_every_invariant_holds(world: World) -> None:
    assert found(world) == set()


@pytest.mark.parametrize("bug", BUGS)
def test_a_bug_in_the_running_product_is_named(bug: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    invariant, plant = BUGS[bug]
    plant(monkeypatch)
    together = invariant == "I3"  # that no more run at once than may: they are to meet on a busy machine too
    assert invariant in (found(world, seconds=3) if together else found(world, patience=6))

"""A wait for the end of a run: answered when it ends, in whatever process, by one look at the events a second."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import StoreUnavailable, TaskNotFound
from duetime.scheduler.events import Event
from duetime.scheduler.foresight.readers.run_ends import RunEnd
from duetime.scheduler.foresight.task_changes import TaskChanges
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.runtime.event_tail import LOOK_INTERVAL_S
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from duetime.server.protocol.wait_handle import WaitHandle
from duetime.tools.registration import make_tools

from tests import blank
from tests.builders import Clock, restarted, settlement
from tests.flow.tools.calls import CONTEXT, settled
from tests.flow.waiting import eventually

MINUTE = timedelta(minutes=1)


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))


@pytest.fixture
def other(store: Store, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    """Open the database once more, as another process does."""
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield opened
    opened.close()


def waits(scheduler: Scheduler) -> bool:
    return bool(scheduler.ends.changes._waiting)


def ends(scheduler: Scheduler, store: Store, tell: Callable[[str], None] = lambda _id: None) -> str:
    """Schedule a task, and let it end on another thread once a call waits for it."""
    task_id = scheduler.schedule("Import", when="now", payload={"message": "x"}).record.task.id

    def end() -> None:
        eventually(lambda: waits(scheduler), "somebody to wait")
        settled(store, store.now(), Done("imported", {"rows": 7}))
        tell(task_id)

    threading.Thread(target=end, daemon=True).start()
    return task_id


@pytest.fixture
def told(scheduler: Scheduler) -> Callable[[str], None]:
    return lambda task_id: scheduler.ends.changes.touched([task_id])


def test_a_wait_ends_with_the_run_in_this_process_or_another_one(
    scheduler: Scheduler, store: Store, other: Store, told: Callable[[str], None]
) -> None:
    for where, tell in ((store, told), (other, lambda _id: None)):
        view = scheduler.wait(ends(scheduler, where, tell), timeout=MINUTE)
        assert (view.record.run.state, view.record.run.result) == (State.SUCCEEDED, {"rows": 7})
    assert not waits(scheduler)


def test_a_wait_ends_at_once_where_nothing_is_to_end_and_at_its_time_otherwise(scheduler: Scheduler) -> None:
    later = scheduler.schedule("Import", when="in 2 hours").record.task.id
    assert scheduler.wait(later, timeout=timedelta(0)).record.run.state is State.SCHEDULED
    scheduler.cancel(later)
    assert scheduler.wait(later).record.run.state is State.CANCELLED
    with pytest.raises(TaskNotFound):
        scheduler.wait("t_000000000000")


def test_of_a_recurring_task_the_run_of_now_is_waited_for(
    scheduler: Scheduler, store: Store, told: Callable[[str], None]
) -> None:
    task_id = scheduler.schedule("Import", when="now", repeat="every hour").record.task.id

    def end() -> None:
        eventually(lambda: waits(scheduler), "somebody to wait")
        settled(store, store.now(), Done("imported"))
        told(task_id)

    threading.Thread(target=end, daemon=True).start()
    view = scheduler.wait(task_id, timeout=MINUTE)
    assert (view.record.run.state, view.last_run and view.last_run.state) == (
        State.SCHEDULED,
        State.SUCCEEDED,
    )


def test_a_tool_answers_when_the_run_has_ended_and_a_wrong_wait_is_refused(
    scheduler: Scheduler, store: Store, told: Callable[[str], None]
) -> None:
    [tool] = [each for each in make_tools(lambda: scheduler) if each.name == "get_task"]

    def asked(**arguments: Any) -> Any:
        return asyncio.run(tool.run(arguments, CONTEXT))

    answer = asked(task_id=ends(scheduler, store, told), wait="60 s")
    assert (answer.structured_content["state"], answer.structured_content["result"]) == ("succeeded", {"rows": 7})
    later = scheduler.schedule("Import", when="in 2 hours").record.task.id
    assert asked(task_id=later, wait=0.001).structured_content["state"] == "scheduled"
    for wrong in ("6 min", "soon", 301):
        refused = asked(task_id=later, wait=wrong)
        assert refused.is_error
        assert "wait: it is not a duration of at most 5 minutes" in refused.content[0].text
    assert "no task 't_000000000000'" in asked(task_id="t_000000000000", wait="1 s").content[0].text


# --- one look for all -------------------------------------------------------------------------------------------------


class Log:
    """Events of another process, and how often they were asked for."""

    def __init__(self) -> None:
        self.found: list[Event] = []
        self.looks: list[int] = []

    def latest(self) -> int:
        return 4

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]:
        self.looks.append(event_id)
        found, self.found = self.found[:limit], self.found[limit:]
        return found


def test_however_many_wait_the_events_are_looked_at_once_a_second(store: Store, scheduler: Scheduler) -> None:
    now, log, woken = [0.0], Log(), list[str]()
    changes = TaskChanges(log, clock=lambda: now[0])
    changes.look()
    with changes.of("t_1", lambda: woken.append("a")), changes.of("t_1", lambda: woken.append("b")):
        with changes.of("t_2", lambda: woken.append("c")):
            for _ in range(3):
                changes.look()
            assert log.looks == []
            scheduler.schedule("Import", when="now")
            [event] = store.history.since(0)
            log.found = [event]
            now[0] += LOOK_INTERVAL_S
            for _ in range(3):
                changes.look()
            assert log.looks == [4]
        changes.touched(["t_1", "t_1", "t_3"])
        now[0] += LOOK_INTERVAL_S
        changes.look()
        assert (woken, log.looks) == (["a", "b"], [4, event.id])
    now[0] += LOOK_INTERVAL_S
    changes.look()
    assert len(log.looks) == 2


class Ending(Log):
    """Events during whose read those who wait for them leave."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = ExitStack()

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]:
        self.waits.close()
        return super().since(event_id, limit=limit)


class Failing(Log):
    """Events that cannot be read the first time."""

    def since(self, event_id: int, *, limit: int = 500) -> list[Event]:
        found = super().since(event_id, limit=limit)
        if len(self.looks) == 1:
            raise StoreUnavailable("away")
        return found


def test_a_failed_look_ends_no_wait_and_the_next_one_repeats_it(
    store: Store, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    now, log, woken = [0.0], Failing(), list[str]()
    changes = TaskChanges(log, clock=lambda: now[0])
    scheduler.schedule("Import", when="now")
    [event] = store.history.since(0)
    with changes.of(event.task_id, lambda: woken.append("a")):
        for _ in range(2):
            now[0] += LOOK_INTERVAL_S
            changes.look()
            log.found = [event]
    assert (woken, log.looks) == (["a"], [4, 4])
    assert "waits: away" in caplog.text


def test_a_wait_that_ends_during_a_look_leaves_no_place_behind(store: Store, scheduler: Scheduler) -> None:
    now, log = [0.0], Ending()
    changes = TaskChanges(log, clock=lambda: now[0])
    scheduler.schedule("Import", when="now")
    log.found = store.history.since(0)
    log.waits.enter_context(changes.of("t_1", lambda: None))
    now[0] += LOOK_INTERVAL_S
    changes.look()
    with changes.of("t_2", lambda: None):
        now[0] += LOOK_INTERVAL_S
        changes.look()
    assert log.looks == [4, 4]


@dataclass
class ChainWait:
    """A wait for a chain, by all ways: a call that waits, and the handle of a client that asks again."""

    scheduler: Scheduler
    store: Store
    chain_id: str
    end: RunEnd
    handle: WaitHandle
    wakes: list[str]

    @classmethod
    def of(cls, scheduler: Scheduler, store: Store, left: ExitStack, **arguments: Any) -> ChainWait:
        chain_id, wakes = scheduler.schedule("Report", **arguments).record.task.id, list[str]()
        end = left.enter_context(RunEnd(scheduler.ends, chain_id, lambda: wakes.append("woken"), by=LOCAL))
        assert not end.has_come()
        begun = WaitHandle.of_call({"task_id": chain_id, "wait": "5 min"}, scheduler, LOCAL)
        assert begun
        found = WaitHandle.of_text(begun[0].text)
        assert found
        return cls(scheduler, store, chain_id, end, found, wakes)

    def id(self, name: str) -> str:
        chain = self.scheduler.get(self.chain_id).chain
        assert chain
        return next(step.task_id for step in chain.steps if step.name == name)

    def settle(self, name: str, spawn: Sequence[Mapping[str, Any]] = ()) -> bool:
        """End the run of a step; return whether the wait was woken by it."""
        claim, before = restarted(self.store, self.store.tasks.get("local", self.id(name))), len(self.wakes)
        planned = FanOut(self.store, Planner(Handlers.load(entry_points=False), "UTC"), TenantQuotas())
        spawned = tuple(planned.plan(claim.task, spawn)) if spawn else ()
        self.store.claims.settle([settlement(claim, spawned=spawned)])
        self.scheduler.ends.changes.touched([claim.task.id])
        return len(self.wakes) > before

    def over(self) -> bool:
        by_handle = self.handle.is_over(self.scheduler.get(self.chain_id))
        assert by_handle is self.end.has_come()
        return by_handle


@pytest.fixture
def left() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def test_of_a_recurring_chain_the_generation_of_now_is_waited_for(
    scheduler: Scheduler, store: Store, left: ExitStack, clock: Clock
) -> None:
    steps = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
    wait = ChainWait.of(scheduler, store, left, repeat="every day at 12:01", steps=steps)
    clock.forward(minutes=1)
    assert wait.settle("fetch")
    assert not wait.over()
    assert wait.settle("load")
    assert wait.over()
    assert scheduler.get(wait.chain_id).record.run.number == 2


def test_a_generation_that_a_no_left_out_is_over(
    scheduler: Scheduler, store: Store, left: ExitStack, clock: Clock
) -> None:
    asks = {"question": "Report?", "by": "2 hours"}
    wait = ChainWait.of(scheduler, store, left, repeat="every day at 12:01", steps=[{"name": "fetch"}], approval=asks)
    clock.forward(minutes=1)
    store.claims.make_ready(limit=9)
    assert not wait.over()
    scheduler.reject(wait.chain_id)
    assert wait.over()
    assert scheduler.get(wait.chain_id).record.run.number == 1, "it uses up no number"


@pytest.mark.parametrize("change", [{"repeat": "every day at 15:00"}, {"when": "in 3 hours"}, {"max_runs": 9}])
def test_a_chain_of_which_only_the_rule_or_the_time_is_changed_is_waited_for(
    scheduler: Scheduler, store: Store, left: ExitStack, change: dict[str, Any]
) -> None:
    wait = ChainWait.of(scheduler, store, left, repeat="every day at 12:01", steps=[{"name": "fetch"}])
    view = scheduler.reschedule(wait.chain_id, **change)
    assert not wait.over()
    scheduler.act(wait.chain_id, "undo", undo=view.undo)
    assert not wait.over()


def test_the_wait_for_a_generation_that_is_left_out_is_over(
    scheduler: Scheduler, store: Store, left: ExitStack
) -> None:
    wait = ChainWait.of(scheduler, store, left, repeat="every day at 12:01", steps=[{"name": "fetch"}])
    scheduler.reschedule(wait.chain_id, skip_next=True)
    assert wait.over()


def test_a_generation_that_a_process_of_before_has_renewed_is_over(
    scheduler: Scheduler, store: Store, left: ExitStack, tmp_path: Path
) -> None:
    wait = ChainWait.of(scheduler, store, left, repeat="every day at 12:01", steps=[{"name": "fetch"}])
    with closing(sqlite3.connect(tmp_path / "duetime.db")) as database, database:
        database.execute("UPDATE chains SET number = number + 1")  # it knows of no other count
    assert wait.over()


def test_a_chain_lasts_until_what_its_last_step_spawned_has_ended(
    scheduler: Scheduler, store: Store, left: ExitStack
) -> None:
    wait = ChainWait.of(scheduler, store, left, when="now", steps=[{"name": "fan"}])
    wait.settle("fan", spawn=[{"name": "a"}, {"name": "b"}])
    assert not wait.over()
    assert [wait.settle(f"fan/{name}") for name in "ab"] == [True, True]
    assert wait.over()

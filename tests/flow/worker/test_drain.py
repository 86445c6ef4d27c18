"""A drained worker takes nothing, lives on, and takes runs again when it is resumed; on each queue."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from datetime import timedelta

import pytest
from duetime.scheduler.runtime.interrupt import Interrupt, WorkerStopping
from duetime.scheduler.store import Store
from duetime.scheduler.store.workers import DrainMode
from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.active_runs import ActiveRun, ActiveRuns
from duetime.scheduler.worker.drain import Drain
from duetime.scheduler.worker.worker import Worker

from tests.builders import TENANT, added
from tests.builders import started as claimed
from tests.flow.waiting import eventually
from tests.flow.worker.house import GRACE, House


def states(house: House, records: Iterable[TaskRecord]) -> list[State]:
    return [house.store.tasks.get(TENANT, record.task.id).run.state for record in records]


def test_a_drained_worker_ends_what_runs_and_leaves_the_rest_to_others(house: House) -> None:
    house.start(threads=2, name="old")
    first = house.schedule(Tier.NORMAL, 2)
    eventually(lambda: len(house.running) == 2, "both run")
    house.workers["old"].drain.follow(DrainMode.FINISH)
    later = house.schedule(Tier.NORMAL, 2)
    house.released |= {record.task.id for record in first}
    eventually(lambda: states(house, first) == [State.SUCCEEDED] * 2, "what ran has ended")
    house.start(threads=2, name="new")
    eventually(lambda: len(house.running) == 2, "the others run")
    assert {house.where[record.task.id] for record in later} == {"new"}


def test_a_resumed_worker_takes_runs_again(house: House) -> None:
    house.start(threads=2)
    drain = house.workers["w"].drain
    assert drain.follow(DrainMode.FINISH)
    assert not drain.follow(DrainMode.FINISH)
    record = house.one(Tier.NORMAL)
    assert states(house, [record]) == [State.READY]
    assert drain.follow(None)
    eventually(lambda: house.runs(record), "it runs")


def test_a_drained_worker_still_stops_in_order(house: House) -> None:
    house.start(threads=2)
    house.one(Tier.NORMAL)
    eventually(lambda: house.running, "it runs")
    worker = house.workers.pop("w")
    worker.drain.follow(DrainMode.FINISH)
    house.released |= set(house.running)
    assert worker.stop(GRACE)
    worker.drain.follow(None)
    record = house.one(Tier.NORMAL)
    assert states(house, [record]) == [State.READY], "a resume does not bring back one that has stopped"


def test_a_worker_that_drains_now_asks_its_runs_to_yield_and_others_continue_them(house: House) -> None:
    house.start(threads=2, name="old")
    record = house.one(Tier.NORMAL)
    eventually(lambda: house.running, "it runs")
    house.workers["old"].drain.follow(DrainMode.NOW)
    house.start(threads=2, name="new")
    eventually(lambda: house.runs(record) and house.where[record.task.id] == "new", "it goes on elsewhere")
    assert house.seen[record.task.id] == {"turn": 1}


def test_a_run_that_gets_its_thread_after_the_drain_began_is_asked_to_yield_as_well(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    claimed, asked, line_up = threading.Event(), threading.Event(), Worker.line_up

    def late(worker: Worker, run_ids: Sequence[str]) -> Sequence[str]:
        if run_ids:
            claimed.set()
            asked.wait(60)
        return line_up(worker, run_ids)

    monkeypatch.setattr(Worker, "line_up", late)
    house.start(threads=2, name="old")
    record = house.one(Tier.NORMAL)
    assert claimed.wait(60)
    house.workers["old"].drain.follow(DrainMode.NOW)
    asked.set()
    house.start(threads=2, name="new")
    eventually(lambda: house.runs(record) and house.where[record.task.id] == "new", "it goes on elsewhere")
    assert house.seen[record.task.id] == {"turn": 1}


class Source:
    """A source of runs that does nothing."""

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def drain(self) -> None: ...


@pytest.mark.parametrize("resumed", [False, True])
def test_a_run_that_does_not_yield_within_the_grace_period_is_interrupted_once_unless_it_is_resumed(
    store: Store, *, resumed: bool
) -> None:
    claim = claimed(store)
    runs, seconds, told = ActiveRuns(), [0.0], list[tuple[str, type[Interrupt]]]()
    runs.add([claim])

    def interrupt(held: ActiveRun, why: type[Interrupt]) -> None:
        told.append((held.run_id, why))

    drain = Drain(
        store,
        Source(),
        runs,
        worker=claim.worker,
        grace=timedelta(seconds=10),
        interrupt=interrupt,
        clock=lambda: seconds[0],
    )
    drain.follow(DrainMode.NOW)
    (held,) = runs.all()
    assert held.yielding
    seconds[0] = 9.9
    drain.follow(DrainMode.NOW)
    assert told == []
    seconds[0] = 10.0
    for _ in range(2):
        drain.follow(None if resumed else DrainMode.NOW)
    assert told == ([] if resumed else [(claim.run.id, WorkerStopping)])


def test_a_plain_drain_interrupts_nothing(store: Store) -> None:
    added(store)
    runs, seconds = ActiveRuns(), [0.0]
    runs.add([claimed(store)])
    drain = Drain(
        store,
        Source(),
        runs,
        worker="w",
        grace=timedelta(0),
        interrupt=lambda *_: pytest.fail("interrupted"),
        clock=lambda: seconds[0],
    )
    for at in (0.0, 3600.0):
        seconds[0] = at
        drain.follow(DrainMode.FINISH)
    assert not runs.all()[0].yielding

"""A hard deadline that is a length of time counts from when a run goes on, whatever happened while it waited."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.settlement import concluded
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State

from tests.builders import Clock
from tests.contracts.store.desk import MORNING, Desk, at

WAITING, CANCELLED = State.WAITING, State.CANCELLED
SOON: Any = {"deadline": "1 hour", "deadline_type": "hard"}
ASKS: StepArguments = {"name": "fetch", "approval": True}
LOAD: Any = {"name": "load", "after": ["fetch"], **SOON}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def chain(desk: Desk, *steps: StepArguments, **more: Any) -> tuple[str, list[str]]:
    """Schedule a chain that is due at 9; return its id and those of its steps."""
    chain_id = desk.scheduler.schedule("Report", steps=list(steps), **{"when": "at 9:00", **more}).record.task.id
    return chain_id, list(desk.scheduler.tasks_of(chain_id))


def run_of(desk: Desk, task_id: str) -> Run:
    return desk.scheduler.get(task_id).record.run


def expire(desk: Desk) -> None:
    desk.store.claims.expire(limit=9, conclude=partial(concluded, now=desk.clock()))


def cancelled(desk: Desk, _chain_id: str, _fetch: str, load: str) -> None:
    undo = desk.scheduler.cancel(load).undo
    desk.scheduler.act(load, "undo", undo=undo)


def cancelled_with_its_chain(desk: Desk, chain_id: str, _fetch: str, _load: str) -> None:
    undo = desk.scheduler.cancel(chain_id).undo
    desk.scheduler.act(chain_id, "undo", undo=undo)


def cancelled_with_others(desk: Desk, _chain_id: str, fetch: str, load: str) -> None:
    undo = desk.scheduler.change_many("cancel", [fetch, load]).undo
    desk.scheduler.change_many("undo", undo=undo)


def rejected(desk: Desk, _chain_id: str, fetch: str, load: str) -> None:
    undo = desk.scheduler.reject(fetch).undo
    assert run_of(desk, load).state is CANCELLED
    desk.scheduler.act(fetch, "undo", undo=undo)


def to_run_now(desk: Desk, _chain_id: str, _fetch: str, load: str) -> None:
    undo = desk.scheduler.act(load, "run_now").undo
    desk.scheduler.act(load, "undo", undo=undo)


def moved(desk: Desk, _chain_id: str, _fetch: str, load: str) -> None:
    desk.scheduler.reschedule(load, when="at 9:05")


def redated(desk: Desk, _chain_id: str, _fetch: str, load: str) -> None:
    desk.scheduler.reschedule(load, deadline="2 hours")
    desk.scheduler.reschedule(load, deadline="1 hour")


HAPPENED: list[Callable[[Desk, str, str, str], None]] = [
    *(cancelled, cancelled_with_its_chain, cancelled_with_others, rejected, to_run_now, moved, redated),
]


@pytest.mark.parametrize("happens", HAPPENED, ids=lambda each: str(each.__name__))
def test_a_step_that_waits_has_its_deadline_from_when_it_goes_on(
    desk: Desk, happens: Callable[[Desk, str, str, str], None]
) -> None:
    chain_id, [fetch, load] = chain(desk, ASKS, LOAD)
    assert run_of(desk, load).drop_at is None

    happens(desk, chain_id, fetch, load)

    assert (run_of(desk, load).state, run_of(desk, load).drop_at) == (WAITING, None)
    desk.clock.at = at(12)
    expire(desk)
    desk.scheduler.approve(fetch)
    desk.end(desk.start(12))
    [claim] = desk.start(12, 1)
    assert (claim.task.id, claim.run.deadline) == (load, at(13))
    assert claim.run.drop_at
    assert at(12, 59) < claim.run.drop_at < at(13)


def test_a_step_of_a_later_generation_has_its_deadline_from_when_it_goes_on(desk: Desk) -> None:
    _, [fetch, load] = chain(desk, {"name": "fetch"}, LOAD, when=None, repeat="every 4 hours at :00", max_runs=9)
    for first in (12, 16):
        claims = desk.start(first)
        desk.clock.at = at(first + 2)
        expire(desk)
        assert [claim.task.id for claim in claims] == [fetch]
        assert (run_of(desk, load).state, run_of(desk, load).drop_at) == (WAITING, None)
        desk.end(claims)
        [claim] = desk.start(first + 2, 1)
        assert (claim.task.id, claim.run.deadline) == (load, at(first + 3))
        desk.end([claim])


@pytest.mark.parametrize("moves", [False, True])
def test_a_step_whose_yes_is_taken_back_has_its_deadline_from_when_it_goes_on(desk: Desk, moves: bool) -> None:
    _, [load] = chain(desk, {**ASKS, **SOON})
    undo = desk.scheduler.approve(load).undo
    if moves:
        desk.scheduler.reschedule(load, when="at 9:30")
    assert run_of(desk, load).drop_at is not None
    desk.scheduler.act(load, "undo", undo=undo)
    assert run_of(desk, load).drop_at is None


def test_a_step_that_asks_with_its_turn_keeps_its_deadline_through_a_cancel_and_its_undo(desk: Desk) -> None:
    rule = {"when": None, "repeat": "every 4 hours at :00"}
    _, [fetch] = chain(desk, {**ASKS, **SOON}, **rule)
    assert desk.start(12) == []
    before = run_of(desk, fetch)
    assert (before.state, before.deadline) == (WAITING, at(13))
    assert before.drop_at
    desk.clock.forward(minutes=1)
    cancelled(desk, "", "", fetch)
    found = run_of(desk, fetch)
    assert (found.first_ready_at, found.deadline, found.drop_at) == (at(12), before.deadline, before.drop_at)
    desk.clock.at = before.drop_at + timedelta(seconds=1)
    expire(desk)
    assert run_of(desk, fetch).state is not WAITING

"""A hard deadline that is a length of time counts from when a run goes on, whatever happened while it waited."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State
from duetime.widgets.payload import as_json, list_payload, task_payload
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import task_text

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
    return chain_id, list(desk.scheduler.ends.tasks_of(chain_id))


def run_of(desk: Desk, task_id: str) -> Run:
    return desk.scheduler.get(task_id).record.run


def expire(desk: Desk) -> None:
    desk.store.claims.expire(limit=9, conclude=partial(with_consequences, now=desk.clock()))


def cancelled(desk: Desk, _chain_id: str, _fetch: str, load: str) -> None:
    undo = desk.scheduler.cancel(load).undo
    desk.scheduler.act(load, "undo", undo=undo)


def cancelled_with_its_chain(desk: Desk, chain_id: str, _fetch: str, _load: str) -> None:
    undo = desk.scheduler.cancel(chain_id).undo
    desk.scheduler.act(chain_id, "undo", undo=undo)


def cancelled_with_others(desk: Desk, _chain_id: str, fetch: str, load: str) -> None:
    undo = desk.scheduler.bulk.change("cancel", [fetch, load]).undo
    desk.scheduler.bulk.change("undo", undo=undo)


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


def waits_for(desk: Desk, *kinds: str, **more: Any) -> str:
    """Schedule a task that is due now and waits for each of `kinds`; return its id."""
    waits: dict[str, Any] = {"event": {"wait_for": {"event": "go"}}, "approval": {"approval": True}}
    if "after" in kinds:
        waits["after"] = {"after": [desk.scheduler.schedule("First", when="at 23:00").record.task.id]}
    given = {name: value for kind in kinds for name, value in waits[kind].items()}
    return desk.scheduler.schedule("Load", **{"when": "at 9:00", **SOON, **given, **more}).record.task.id


def goes(desk: Desk, task_id: str, *kinds: str) -> None:
    if "event" in kinds:
        desk.scheduler.signals.send("go")
    if "approval" in kinds:
        desk.scheduler.approve(task_id)


WAITS = [("event",), ("approval",), ("event", "approval"), ("after",)]


@pytest.mark.parametrize("kinds", WAITS, ids="+".join)
def test_a_length_that_does_not_count_yet_is_said_as_one_and_is_never_missed(
    desk: Desk, kinds: tuple[str, ...]
) -> None:
    task_id = waits_for(desk, *kinds)
    desk.clock.at = at(12)
    expire(desk)

    view = desk.scheduler.get(task_id)
    payload = as_json(task_payload(view))
    assert payload["state"] == "waiting"
    assert "deadline" not in payload
    assert payload["relative_deadline"] == {"text": "1 h after it can start", "type": "hard", "after": "1 h"}
    assert "Finish within 1 h after it can start (hard)." in task_text(task_payload(view))
    page = desk.scheduler.tasks.list()
    [row] = [row for row in as_json(list_payload(page))["tasks"] if row["id"] == task_id]
    assert "deadline" not in row
    assert not re.search(r" by (?!the user)", list_text(page))
    assert desk.scheduler.past.run(view.record.run.id).run.deadline is None


@pytest.mark.parametrize("kinds", WAITS[:3], ids="+".join)
def test_a_run_that_waits_no_longer_has_a_fixed_deadline(desk: Desk, kinds: tuple[str, ...]) -> None:
    task_id = waits_for(desk, *kinds)
    desk.clock.at = at(12)
    goes(desk, task_id, *kinds)

    payload = as_json(task_payload(desk.scheduler.get(task_id)))
    deadline = payload["deadline"]
    assert "relative_deadline" not in payload
    assert (deadline["utc"], deadline["after"]) == ("2026-11-23T13:00:00Z", "1 h")
    assert "missed" not in deadline


def test_an_instant_is_a_deadline_of_a_run_that_waits_and_expires_it(desk: Desk) -> None:
    task_id = waits_for(desk, "event", deadline="10:30")
    assert as_json(task_payload(desk.scheduler.get(task_id)))["deadline"]["utc"] == "2026-11-23T10:30:00Z"
    desk.clock.at = at(11)
    expire(desk)
    view = desk.scheduler.get(task_id)
    assert view.record.run.state is State.EXPIRED
    assert as_json(task_payload(view))["deadline"]["missed"]


def test_the_undo_of_a_cancel_lets_the_length_count_from_its_start_again(desk: Desk) -> None:
    task_id = waits_for(desk, "event")
    desk.scheduler.act(task_id, "undo", undo=desk.scheduler.cancel(task_id).undo)
    desk.clock.at = at(12)
    desk.scheduler.signals.send("go")
    assert run_of(desk, task_id).deadline == at(13)

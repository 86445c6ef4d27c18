"""A chain says which of its steps are unverified or paused, until when, and each question once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.handlers import Context, Handlers, handler
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.rules.settlement import Unverified
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.widgets.payload import task_payload
from duetime.widgets.schema.task import TaskPayload
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.series.test_store_series import MORNING, Desk

HOOK = {"action": "webhook", "payload": {"url": "https://example.com/hook"}}
TWO: list[dict[str, Any]] = [{"name": "a", **HOOK}, {"name": "b", "after": ["a"], **HOOK}]


@handler("gated", preflight=lambda *_: "no key for the bank")
def gated(_ctx: Context) -> Done:
    """Pay."""
    return Done("paid")


@pytest.fixture
def target(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    handlers = Handlers.load(entry_points=False, added=[gated])
    planner = Planner(handlers, "Europe/Berlin", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def shown(target: Desk, task_id: str) -> TaskPayload:
    return task_payload(target.scheduler.get(task_id))


def chain_of(target: Desk, **arguments: Any) -> tuple[str, list[str]]:
    """Schedule a chain; return its id, and those of its steps."""
    view = target.scheduler.schedule("Report", **{"when": "in 0 s", "steps": TWO, **arguments})
    assert view.chain
    return view.record.task.id, [step.task_id for step in view.chain.steps]


def test_a_chain_names_the_step_whose_result_is_not_as_expected(target: Desk) -> None:
    contract = {"field": "y"}
    chain_id, steps = chain_of(target, steps=[{**TWO[0], "expect": contract}, TWO[1]])
    target.end(target.start(), Unverified("got it", {"x": 1}, miss="the result has no `y`"))
    target.end(target.start(), Done("sent"))

    found = shown(target, chain_id)
    assert (found.state, found.expect) == (State.SUCCEEDED, None)
    assert found.chain
    assert found.chain.unverified == ("a",)
    assert found.chain.steps
    assert [bool(step.unverified) for step in found.chain.steps] == [True, False]
    said = task_text(found)
    assert "2 of 2 steps done, 1 unverified." in said
    assert f"a ({steps[0]}) unverified: «" in said
    assert "Expects" not in said
    assert shown(target, steps[0]).expect == contract


def test_a_chain_expects_what_its_last_steps_have_to_give(target: Desk) -> None:
    chain_id, _ = chain_of(target, expect={"field": "y"})
    assert shown(target, chain_id).expect == {"field": "y"}


def test_a_chain_whose_first_step_has_run_is_paused_until_its_next_step_goes_on(target: Desk) -> None:
    chain_id, steps = chain_of(target)
    target.clock.at += timedelta(seconds=1)
    running = target.start()
    target.scheduler.reschedule(chain_id, pause_until="tomorrow 20:00")
    target.end(running, Done("ran"))

    found = shown(target, chain_id)
    until = shown(target, steps[1]).paused_until
    assert until
    assert (found.paused, found.paused_until) == (True, until)
    assert found.waits
    assert found.waits[0].until == until


def test_a_chain_is_paused_with_its_next_step(target: Desk) -> None:
    chain_id, steps = chain_of(target)
    target.scheduler.reschedule(steps[0], pause=True)
    target.clock.at += timedelta(seconds=1)

    found = shown(target, chain_id)
    assert (found.paused, found.paused_until) == (True, None)
    assert found.waiting_for == ("paused: it waits until it is resumed",)
    assert found.chain
    assert found.chain.steps
    assert [step.paused for step in found.chain.steps] == [True, None]


def test_a_chain_that_goes_on_around_a_paused_step_names_it(target: Desk) -> None:
    chain_id, steps = chain_of(target, when="tomorrow 9am", steps=[{"name": "a", **HOOK}, {"name": "b", **HOOK}])
    target.scheduler.reschedule(steps[1], pause=True)
    found = shown(target, chain_id)
    assert found.paused is None
    assert found.waiting_for == ("b: paused: it waits until it is resumed",)


def test_a_question_of_two_steps_is_told_once(target: Desk) -> None:
    chain_id, _ = chain_of(target, approval="Go?", steps=[{"name": "a", **HOOK}, {"name": "b", **HOOK}])
    assert len(shown(target, chain_id).waiting_for or ()) == 1


@on_each_database
def test_a_chain_whose_next_steps_are_blocked_says_so_and_by_what(target: Desk) -> None:
    chain_id, _ = chain_of(target, when="in 1 hour", steps=[{"name": "pay", "action": "gated"}])
    found = shown(target, chain_id)
    assert found.blocked
    assert [(wait.kind, wait.after) for wait in found.waits or ()] == [("blocked", "no key for the bank")]
    said = task_text(found)
    assert said.startswith("The chain is blocked and continues once its requirements are met.")
    assert "Blocked: «no key for the bank»." in said


@on_each_database
def test_a_chain_of_which_one_next_step_is_blocked_is_not_blocked_and_says_by_what_that_is(target: Desk) -> None:
    steps = [{"name": "pay", "action": "gated"}, {"name": "tell", **HOOK}]
    chain_id, _ = chain_of(target, when="in 1 hour", steps=steps)
    found = shown(target, chain_id)
    assert not found.blocked
    assert [(wait.kind, wait.after) for wait in found.waits or ()] == [("blocked", "no key for the bank")]


def test_a_chain_after_a_task_outside_says_which(target: Desk) -> None:
    outside = target.scheduler.schedule("Outer", when="in 2 hours").record.task.id
    chain_id, _ = chain_of(target, when=None, after=[outside])
    found = shown(target, chain_id)
    assert [(wait.kind, wait.task) for wait in found.waits or ()] == [("task", outside)]
    assert f"Waiting for {outside} «Outer», which is scheduled." in task_text(found)

"""A generation of a chain is left out whole, by one call with one undo."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import OF_CHAIN, EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskView

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

STEPS: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def hourly(desk: Desk, **more: Any) -> str:
    return desk.scheduler.schedule("Report", repeat="every hour at :00", steps=STEPS, **more).record.task.id


def skip(desk: Desk, task_id: str, *, by_button: bool = False) -> TaskView:
    return desk.scheduler.act(task_id, "skip_next") if by_button else desk.scheduler.reschedule(task_id, skip_next=True)


def coming(desk: Desk, chain_id: str) -> list[int]:
    return [each.instant.hour for each in desk.scheduler.get(chain_id).upcoming[:3]]


def run(desk: Desk, hour: int) -> None:
    for _ in STEPS:
        desk.end(desk.start(hour, 1))


@pytest.mark.parametrize("by_button", [False, True])
def test_the_next_generation_is_left_out_whole_and_the_undo_brings_it_back(desk: Desk, *, by_button: bool) -> None:
    chain_id = hourly(desk, max_runs=2)
    view = skip(desk, chain_id, by_button=by_button)
    assert ("left out: Mon 23 Nov 2026 09:00" in view.warnings, coming(desk, chain_id)) == (True, [10, 11])
    desk.scheduler.act(chain_id, "undo", undo=view.undo)
    assert coming(desk, chain_id) == [9, 10]
    skip(desk, chain_id, by_button=by_button)
    desk.nothing_due(9, 30)
    run(desk, 10)
    assert coming(desk, chain_id) == [11], "a generation that was left out uses up no number"
    run(desk, 11)
    assert desk.scheduler.get(chain_id).record.run.state is State.SUCCEEDED


def test_a_generation_that_runs_before_the_one_left_out_is_followed_by_the_one_after_that(desk: Desk) -> None:
    chain_id = hourly(desk)
    skip(desk, chain_id)
    desk.scheduler.reschedule(chain_id, when="now")
    run(desk, 8)
    assert coming(desk, chain_id) == [11, 12, 13], "the rule is used up to the time that it was moved from"


def test_a_skip_of_a_moved_generation_goes_on_behind_its_time(desk: Desk) -> None:
    chain_id = hourly(desk)
    desk.scheduler.reschedule(chain_id, when="11:30")
    skip(desk, chain_id)
    assert coming(desk, chain_id) == [12, 13, 14]


@on_each_database
def test_the_history_says_that_a_generation_was_left_out(desk: Desk) -> None:
    chain_id = hourly(desk)
    skip(desk, chain_id)
    events = desk.store.history.events("local", EventFilter(kind=EventKind.SKIPPED), limit=9).events
    [(before, after)] = [(event.before, event.after) for event in events if (event.after or {}).get(OF_CHAIN)]
    assert before
    assert after
    assert (before["due_at"], after["due_at"], after[OF_CHAIN]) == (
        *(at(9).isoformat(), at(10).isoformat()),
        chain_id,
    )


def test_a_generation_that_has_begun_or_is_the_last_is_not_left_out(desk: Desk) -> None:
    begun, last = hourly(desk), hourly(desk, until="2026-11-23 9:30")
    with pytest.raises(Refused, match="this is the last generation of"):
        skip(desk, last)
    desk.start(9)
    with pytest.raises(Refused, match=r"the generation of c_.* of Mon 23 Nov 2026 09:00 UTC has begun"):
        skip(desk, begun)


def test_a_question_of_a_generation_that_is_left_out_is_withdrawn_and_asked_at_the_next_one(desk: Desk) -> None:
    chain_id = hourly(desk, approval={"question": "Report?", "by": "30 min"})
    desk.nothing_due(9)
    assert "approval of «Report?»" in str(desk.scheduler.explain(chain_id)[1])
    skip(desk, chain_id)
    assert "approval" not in str(desk.scheduler.explain(chain_id)[1])
    desk.nothing_due(10)
    assert "approval of «Report?»" in str(desk.scheduler.explain(chain_id)[1])


@pytest.mark.parametrize("by_button", [False, True])
def test_the_refusal_to_skip_a_step_shows_the_call_that_skips_the_generation(desk: Desk, *, by_button: bool) -> None:
    chain = desk.scheduler.get(hourly(desk)).chain
    assert chain
    with pytest.raises(InvalidArgument, match="its next generation is left out whole") as refused:
        skip(desk, chain.steps[0].task_id, by_button=by_button)
    assert (refused.value.argument, refused.value.example) == ("task_id", f"task_id='{chain.id}'")
    once = desk.scheduler.schedule("Report", when="in 1 hour", steps=STEPS).record.task.id
    with pytest.raises(InvalidArgument, match="this chain runs once"):
        skip(desk, once, by_button=by_button)
    with pytest.raises(InvalidArgument, match="a chain is paused, skipped or changed"):
        desk.scheduler.reschedule(chain.id, skip_next=True, priority="high")


def test_the_generation_after_one_that_was_left_out_starts_as_late_as_any_other(desk: Desk) -> None:
    chain_id = hourly(desk, repeat_policy={"jitter": "10 min"})

    def lateness() -> timedelta:
        steps = desk.store.chains.get("local", chain_id).steps
        run = steps[0].record.run
        assert run.wake_at
        return run.wake_at - run.scheduled_for

    before = lateness()
    assert before
    skip(desk, chain_id)
    assert (coming(desk, chain_id)[0], lateness()) == (10, before)

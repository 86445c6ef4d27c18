"""The undo of a call that schedules: what it made is cancelled as long as nothing of it has begun."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.request import Request, StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import Clock
from tests.contracts.store.series.test_store_series import MORNING, Desk, day

STEPS: list[StepArguments] = [{"name": "fetch"}, {"name": "mail", "after": ["fetch"]}]


@pytest.fixture
def target(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", channels=Channels(), upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def refused(target: Desk, task_id: str) -> str:
    with pytest.raises(Refused) as refusal:
        target.scheduler.act(task_id, "undo", undo="u_1")
    return str(refusal.value)


def states(target: Desk, chain_id: str) -> list[State]:
    chain = target.scheduler.get(chain_id).chain
    assert chain
    return [step.state for step in chain.steps]


def test_a_scheduled_task_is_cancelled_and_that_is_taken_back_in_turn(target: Desk) -> None:
    made = target.scheduler.schedule("Take the pill", repeat="every day at 9:00")
    task_id = made.record.task.id
    gone = target.scheduler.act(task_id, "undo", undo=made.undo)
    assert (made.undo, gone.record.run.state) == ("u_1", State.CANCELLED)

    back = target.scheduler.act(task_id, "undo", undo=gone.undo)
    assert (back.record.run.state, back.record.run.scheduled_for) == (State.SCHEDULED, day(1))
    assert target.run(day(1)) == 1


def test_each_of_several_tasks_has_its_own_undo(target: Desk) -> None:
    made = target.scheduler.task_creator.create_many(
        [Request("One", when="in 2 hours"), Request("Two", when="in 2 hours")]
    )
    assert [each.undo for each in made] == ["u_1", "u_1"]
    target.scheduler.act(made[1].record.task.id, "undo", undo=made[1].undo)
    assert [target.get(each.record.task.id).record.run.state for each in made] == [State.SCHEDULED, State.CANCELLED]


def test_a_repeated_call_and_a_dry_run_offer_no_undo(target: Desk) -> None:
    """The first call may be another agent's, and what it made may have been cancelled a moment ago."""
    asked: Request = Request("Call John", when="in 2 hours", idempotency_key="call")
    chain = Request("Report", steps=STEPS, when="in 2 hours", idempotency_key="report")
    tried = Request("Call Ann", when="in 2 hours", dry_run=True)
    for request in (asked, chain):
        made = target.scheduler.submit(request)
        assert made.undo == "u_1"
        assert target.scheduler.submit(request).undo is None
        target.scheduler.cancel(made.record.task.id)
        assert target.scheduler.submit(request).undo is None, "that of the cancel would bring it back"
    assert target.scheduler.submit(tried).undo is None


def test_a_repeated_undo_is_one(target: Desk) -> None:
    task_id = target.schedule(when="in 2 hours")
    raw = {"task_id": task_id, "action": "undo", "undo": "u_1"}
    for _ in "ab":
        gone = target.scheduler.act(task_id, "undo", undo="u_1", raw=raw)
        assert gone.record.run.state is State.CANCELLED
    assert "was changed since, so it stays" in refused(target, task_id)


def test_it_is_refused_with_what_has_happened_since(target: Desk) -> None:
    changed, ran, runs = (target.schedule(when="in 10 seconds") for _ in range(3))
    late, series = target.schedule(when="in 2 hours"), target.schedule(repeat="every day at 8:00", when="in 10 seconds")
    target.scheduler.reschedule(changed, when="in 2 hours")
    target.clock.at += timedelta(seconds=10)
    claims = target.start()
    target.end([claim for claim in claims if claim.run.task_id != runs], Done("taken"))
    assert f"{changed} was changed since, so it stays." in refused(target, changed)
    assert f"{ran} has run since, so it stays." in refused(target, ran)
    assert f"{runs} is running, so it stays." in refused(target, runs)
    target.clock.at += timedelta(seconds=26)
    assert f"{late} was not scheduled in the last 30 s." in refused(target, late)
    assert target.get(series).record.run.state is State.SCHEDULED


def test_a_chain_is_taken_back_as_a_whole_or_not_at_all(target: Desk) -> None:
    def chain(when: str) -> str:
        made = target.scheduler.schedule("Report", when=when, steps=STEPS)
        assert made.undo == "u_1"
        return made.record.task.id

    whole, begun, late = chain("in 2 hours"), chain("in 10 seconds"), chain("in 2 hours")
    gone = target.scheduler.act(whole, "undo", undo="u_1")
    assert states(target, whole) == [State.CANCELLED] * 2
    target.scheduler.act(whole, "undo", undo=gone.undo)
    assert states(target, whole) == [State.SCHEDULED, State.WAITING]

    target.clock.at += timedelta(seconds=10)
    [first] = target.start()
    assert f"{first.run.task_id} is running, so it stays." in refused(target, begun)
    assert states(target, begun) == [State.RUNNING, State.WAITING], "no step of it was cancelled"
    target.clock.at += timedelta(seconds=26)
    assert "was not scheduled in the last 30 s" in refused(target, late)
    assert states(target, late) == [State.SCHEDULED, State.WAITING]

"""Generations at once (`allow_all`) whose steps ask, or wait for an event: each for itself, on each database."""

from __future__ import annotations

from datetime import datetime

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Overlap, Run, State

from tests.builders import Clock, runs_of
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.contracts.store.hourly_chain import STEPS, Hourly

pytestmark = on_each_database

DONE, RUNNING, SCHEDULED = State.SUCCEEDED, State.RUNNING, State.SCHEDULED
EXPIRED, SKIPPED, WAITING = State.EXPIRED, State.SKIPPED, State.WAITING
ASKS: StepArguments = {"name": "load", "after": ["fetch"], "approval": {"question": "Load?", "by": "90 min"}}
AWAITS: StepArguments = {
    "name": "load",
    "after": ["fetch"],
    "wait_for": {"event": "rows", "timeout": "90 min", "lookback": "5 min"},
}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def of(desk: Desk, chain: Hourly, step: str, number: int) -> Run:
    found = [run for run in runs_of(desk.store, chain.steps[step]) if run.number == number]
    return max(found, key=lambda run: (run.scheduled_for, run.generation))


def states(desk: Desk, chain: Hourly, step: str = "load") -> list[State]:
    return [of(desk, chain, step, number).state for number in (1, 2)]


def held_twice(desk: Desk, step: StepArguments) -> Hourly:
    """Return a chain of which two generations are open, whose second step is held in both since 9:00 and 10:00."""
    chain = Hourly(desk, [{"name": "fetch"}, step, {"name": "mail", "after": ["load"]}])
    desk.end(desk.start(9))
    desk.nothing_due(9, 1)
    desk.end(chain.overtaken(10))
    desk.nothing_due(10, 1)
    assert states(desk, chain) == [WAITING, WAITING]
    return chain


@pytest.mark.parametrize("number", [1, 2])
def test_each_generation_asks_its_own_question_and_a_yes_lets_that_generation_go_on(desk: Desk, number: int) -> None:
    chain = held_twice(desk, ASKS)
    asked = [message.run_id for message in desk.scheduler.inbox.unread() if message.text == "Load?"]
    assert sorted(asked) == sorted(of(desk, chain, "load", each).id for each in (1, 2))
    desk.scheduler.approve(of(desk, chain, "load", number).id)
    [claim] = desk.start(10, 2)
    assert (claim.task.id, claim.run.number) == (chain.steps["load"], number)
    desk.end([claim])
    other = 3 - number
    assert (of(desk, chain, "mail", number).state, of(desk, chain, "mail", other).state) == (SCHEDULED, WAITING)


def test_an_answer_for_the_chain_is_refused_while_two_generations_ask(desk: Desk) -> None:
    chain = held_twice(desk, ASKS)
    with pytest.raises(Refused, match="asks in 2 generations: answer each by the id of its run: load") as refused:
        desk.scheduler.approve(chain.id)
    for number in (1, 2):
        assert f"{of(desk, chain, 'load', number).id} (generation {number})" in str(refused.value)
    assert states(desk, chain) == [WAITING, WAITING]
    desk.scheduler.approve(of(desk, chain, "load", 1).id)
    assert states(desk, chain) == [SCHEDULED, WAITING]
    desk.scheduler.approve(chain.id)
    assert states(desk, chain) == [SCHEDULED, SCHEDULED]


def test_a_no_leaves_out_the_steps_of_its_generation_alone(desk: Desk) -> None:
    chain = held_twice(desk, ASKS)
    desk.scheduler.reject(of(desk, chain, "load", 1).id)
    assert (states(desk, chain), states(desk, chain, "mail")) == ([SKIPPED, WAITING], [SKIPPED, WAITING])


def test_a_step_that_was_run_now_and_then_overtaken_starts_with_the_yes(desk: Desk) -> None:
    chain = Hourly(desk, [{"name": "fetch"}, ASKS])
    desk.start(9)
    desk.scheduler.act(chain.steps["load"], "run_now")
    desk.nothing_due(9, 1)
    chain.overtaken(10)
    load = of(desk, chain, "load", 1)
    assert load.state is WAITING
    desk.scheduler.approve(load.id)
    assert [claim.run.id for claim in desk.start(10, 2)] == [load.id]


def test_the_default_ends_the_question_of_each_generation_at_its_own_time(desk: Desk) -> None:
    chain = held_twice(desk, ASKS)
    desk.clock.at = at(10, 31)
    assert desk.store.approvals.expire(limit=9) == [chain.steps["load"]]
    assert states(desk, chain) == [SKIPPED, WAITING]


def test_first_steps_that_ask_do_not_hold_the_next_generation_back(desk: Desk) -> None:
    chain = Hourly(desk, STEPS, approval={"question": "Go?"})
    desk.nothing_due(9)
    assert chain.overtaken(10) == []
    desk.nothing_due(10, 1)
    assert states(desk, chain, "fetch") == [WAITING, WAITING]
    desk.scheduler.approve(of(desk, chain, "fetch", 1).id)
    assert [claim.run.number for claim in desk.start(10, 2)] == [1]


def test_an_event_lets_go_all_generations_that_wait_for_it(desk: Desk) -> None:
    chain = held_twice(desk, AWAITS)
    assert desk.scheduler.signals.send("rows").freed == 2
    assert states(desk, chain) == [SCHEDULED, SCHEDULED]
    desk.end(desk.start(10, 2))
    assert states(desk, chain, "mail") == [SCHEDULED, SCHEDULED]


def test_a_wait_without_its_event_ends_its_generation_alone(desk: Desk) -> None:
    chain = held_twice(desk, AWAITS)
    desk.clock.at = at(10, 31)
    desk.store.signals.end_late(limit=9)
    assert states(desk, chain) == [EXPIRED, WAITING]
    assert of(desk, chain, "mail", 2).state is WAITING


@pytest.mark.parametrize(("came", "counts"), [(at(8, 54), False), (at(8, 56), True), (at(9, 30), True)])
def test_an_older_generation_counts_events_since_its_own_time(desk: Desk, came: datetime, *, counts: bool) -> None:
    chain = Hourly(desk, [{"name": "fetch"}, AWAITS])
    desk.clock.at = min(came, at(9))
    if came < at(9):
        desk.scheduler.signals.send("rows")
    [fetch] = desk.start(9)
    if came > at(9):
        desk.clock.at = came
        desk.scheduler.signals.send("rows")
    chain.overtaken(10)
    desk.clock.at = at(10, 5)
    desk.end([fetch])
    desk.nothing_due(10, 6)
    claims = desk.start(10, 7)
    assert bool(claims) is counts
    assert of(desk, chain, "load", 1).state is (RUNNING if counts else WAITING)


def test_a_chain_that_asks_may_let_its_generations_overlap_later(desk: Desk) -> None:
    view = desk.scheduler.schedule("Report", steps=[{"name": "fetch"}, ASKS], repeat="every hour at :00")
    assert view.chain
    changed = desk.scheduler.reschedule(view.chain.id, repeat_policy={"overlap": "allow_all"})
    policy = changed.record.task.repeat_policy
    assert policy
    assert policy.overlap is Overlap.ALLOW_ALL


def test_a_step_of_overlapping_generations_may_get_a_wait_later(desk: Desk) -> None:
    chain = Hourly(desk)
    desk.scheduler.reschedule(chain.steps["load"], wait_for={"event": "rows", "timeout": "2 hours"})
    desk.end(desk.start(9))
    desk.nothing_due(9, 1)
    desk.scheduler.signals.send("rows")
    assert [claim.task.id for claim in desk.start(9, 2)] == [chain.steps["load"]]


def test_the_yes_to_one_generation_offers_no_undo_of_the_yes_to_another(desk: Desk) -> None:
    chain = held_twice(desk, ASKS)
    desk.scheduler.approve(of(desk, chain, "load", 2).id)
    view = desk.scheduler.approve(of(desk, chain, "load", 1).id)
    assert view.undo is None


def test_the_yes_to_an_older_generation_by_its_chain_offers_no_undo_of_the_yes_to_another(desk: Desk) -> None:
    chain = held_twice(desk, ASKS)
    desk.scheduler.approve(of(desk, chain, "load", 2).id)
    assert desk.scheduler.approve(chain.id).undo is None
    assert states(desk, chain) == [SCHEDULED, SCHEDULED]


def test_a_user_gets_no_message_about_the_generation_that_he_rejects(desk: Desk) -> None:
    chain = held_twice(desk, ASKS)
    older = of(desk, chain, "load", 1)
    desk.scheduler.reject(older.id)
    assert older.id not in {message.run_id for message in desk.scheduler.inbox.unread()}


def test_a_generation_that_is_cancelled_and_taken_back_still_needs_its_yes(desk: Desk) -> None:
    chain = held_twice(desk, ASKS)
    view = desk.scheduler.cancel(chain.id)
    desk.scheduler.act(chain.id, "undo", undo=view.undo)
    desk.nothing_due(10, 2)
    assert states(desk, chain) == [WAITING, WAITING]
    assert len([each for each in desk.scheduler.inbox.unread() if each.text == "Load?"]) == 2


@pytest.mark.parametrize("step", [ASKS, AWAITS], ids=["a yes", "an event"])
def test_a_generation_that_is_cancelled_and_taken_back_keeps_what_it_had(desk: Desk, step: StepArguments) -> None:
    chain = held_twice(desk, step)
    for number in (1, 2):
        if step is ASKS:
            desk.scheduler.approve(of(desk, chain, "load", number).id)
    if step is AWAITS:
        desk.scheduler.signals.send("rows")
    view = desk.scheduler.cancel(chain.id)
    desk.scheduler.act(chain.id, "undo", undo=view.undo)
    assert sorted(claim.run.number for claim in desk.start(10, 2)) == [1, 2]

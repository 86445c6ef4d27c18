"""Generations of a chain that run next to each other (`allow_all`)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Retry
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.series.overtake import MAX_RUNS_AT_ONCE
from duetime.scheduler.rules.settlement import StoppedByRequest
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import Clock, settlement
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.contracts.store.hourly_chain import STEPS, Hourly

DONE, SCHEDULED, WAITING = State.SUCCEEDED, State.SCHEDULED, State.WAITING
CANCELLED, FAILED, RUNNING = State.CANCELLED, State.FAILED, State.RUNNING


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def test_a_generation_starts_at_its_time_next_to_an_open_one_and_each_step_follows_the_run_of_its_own(
    desk: Desk,
) -> None:
    chain = Hourly(desk)
    [first] = desk.start(9)
    assert chain.overtaken(9, 59) == []
    [second] = chain.overtaken(10)
    assert (second.task.id, second.run.number) == (first.task.id, 2)
    assert (chain.runs("fetch"), chain.runs("load")) == ({1: RUNNING, 2: RUNNING}, {1: WAITING, 2: WAITING})

    desk.end([second], Done("newer", result="of 10"))
    assert chain.runs("load") == {1: WAITING, 2: SCHEDULED}
    desk.end([first], Done("older", result="of 9"))
    assert chain.runs("load") == {1: SCHEDULED, 2: SCHEDULED}
    loads = {claim.run.number: claim for claim in desk.start(10, 1)}
    assert {number: chain.inputs(claim) for number, claim in loads.items()} == {
        1: {"fetch": "of 9"},
        2: {"fetch": "of 10"},
    }
    desk.end([loads[1]])
    assert chain.runs("fetch") == {1: DONE, 2: DONE}
    desk.end([loads[2]])
    assert chain.runs("load") == {1: DONE, 2: DONE, 3: WAITING}
    assert [claim.run.scheduled_for.hour for claim in desk.start(11)] == [11]


def test_the_event_of_a_generation_says_that_the_one_before_it_goes_on(desk: Desk) -> None:
    chain = Hourly(desk)
    desk.start(9)
    chain.overtaken(10)
    found = EventFilter(task_id=chain.steps["load"], kind=EventKind.NEXT_OCCURRENCE)
    [event] = desk.scheduler.past.events(found).events
    assert (event.reason, event.to_state) == ("generation 1 continues", WAITING)


def test_a_failure_ends_the_steps_of_its_own_generation_alone(desk: Desk) -> None:
    steps: list[StepArguments] = [*STEPS, {"name": "mail", "after": ["load"]}]
    chain = Hourly(desk, steps)
    [first] = desk.start(9)
    [second] = chain.overtaken(10)
    desk.end([first], Failed("away"))
    assert chain.runs("load") == chain.runs("mail") == {1: FAILED, 2: WAITING}
    desk.end([second])
    assert (chain.runs("load"), chain.runs("mail")) == ({1: FAILED, 2: SCHEDULED}, {1: FAILED, 2: WAITING})


def test_a_step_behind_two_others_waits_for_both_of_its_generation(desk: Desk) -> None:
    steps: list[StepArguments] = [{"name": "a"}, {"name": "b"}, {"name": "sum", "after": ["a", "b"]}]
    chain = Hourly(desk, steps)
    a, b = sorted(desk.start(9), key=lambda claim: claim.task.title)
    newer_a, newer_b = chain.overtaken(10)
    desk.end([a])
    desk.end([newer_b])
    assert chain.runs("sum") == {1: WAITING, 2: WAITING}
    desk.end([newer_a])
    assert chain.runs("sum") == {1: WAITING, 2: SCHEDULED}
    desk.end([b])
    assert chain.runs("sum") == {1: SCHEDULED, 2: SCHEDULED}


def test_a_step_with_its_own_schema_is_judged_by_the_result_of_its_generation(desk: Desk) -> None:
    load: StepArguments = {"name": "load", "after": ["fetch"], "valid_output": {"type": "string"}}
    chain = Hourly(desk, [{"name": "fetch"}, load])
    [first] = desk.start(9)
    [second] = chain.overtaken(10)
    desk.end([second], Done("rows", result="rows"))
    desk.end([first], Done("none", result=0))
    assert chain.runs("load") == {1: FAILED, 2: SCHEDULED}


def test_a_step_between_two_attempts_goes_on_next_to_the_newer_generation(desk: Desk) -> None:
    chain = Hourly(desk)
    desk.end(desk.start(9), Retry("away", after=timedelta(minutes=90)))
    [second] = chain.overtaken(10)
    desk.end([second])
    desk.end([claim for claim in desk.start(10, 30) if claim.run.number == 1])
    assert (chain.runs("fetch"), chain.runs("load")) == ({1: DONE, 2: DONE}, {1: SCHEDULED, 2: RUNNING})


def test_a_cancel_ends_all_generations_and_its_undo_brings_back_what_had_not_begun(desk: Desk) -> None:
    chain = Hourly(desk)
    claims = desk.start(9)
    claims += chain.overtaken(10)
    desk.end(claims[:1])
    claims += chain.overtaken(11)
    assert chain.runs("load") == {1: RUNNING, 2: WAITING, 3: WAITING}
    view = desk.scheduler.cancel(chain.id)
    assert chain.runs("load") == {1: RUNNING, 2: CANCELLED, 3: CANCELLED}
    desk.scheduler.act(chain.id, "undo", undo=view.undo)
    assert chain.runs("load") == {1: RUNNING, 2: WAITING, 3: WAITING}


@on_each_database
def test_a_second_cancel_ends_the_series_though_one_of_the_same_instant_was_taken_back(desk: Desk) -> None:
    chain = Hourly(desk)
    [fetch] = desk.start(9)
    view = desk.scheduler.cancel(chain.id)
    desk.scheduler.act(chain.id, "undo", undo=view.undo)
    desk.end_anew([fetch], Done("fetched"))
    [load] = desk.start(9)
    desk.scheduler.cancel(chain.id)
    desk.end_anew([load], Done("loaded"))
    assert (chain.runs("fetch"), chain.runs("load")) == ({1: DONE}, {1: DONE})


def test_a_cancel_that_only_asks_to_stop_in_all_generations_offers_no_undo(desk: Desk) -> None:
    chain = Hourly(desk, [{"name": "fetch"}, {"name": "check"}])
    desk.start(9)
    second = chain.overtaken(10)
    desk.end([claim for claim in second if claim.task.id == chain.steps["check"]])
    assert desk.scheduler.cancel(chain.id).undo is None


def test_a_stopped_step_cancels_what_waits_for_it_in_its_generation(desk: Desk) -> None:
    chain = Hourly(desk)
    [first] = desk.start(9)
    [second] = chain.overtaken(10)
    desk.scheduler.cancel(chain.steps["fetch"])
    desk.end_anew([first, second], StoppedByRequest())
    assert (chain.runs("fetch"), chain.runs("load")) == ({1: CANCELLED, 2: CANCELLED}, {1: CANCELLED, 2: CANCELLED})


def test_an_older_generation_is_held_by_a_pause_and_goes_on_with_the_chain(desk: Desk) -> None:
    chain = Hourly(desk)
    [first] = desk.start(9)
    chain.overtaken(10)
    desk.scheduler.reschedule(chain.id, pause=True)
    desk.end_anew([first], Done("fetched"))
    assert chain.runs("load")[1] is SCHEDULED
    assert desk.start(10, 5) == []
    desk.scheduler.reschedule(chain.id, pause=False)
    assert [claim.run.number for claim in desk.start(10, 6)] == [1]


def test_twenty_generations_are_open_at_most(desk: Desk) -> None:
    chain = Hourly(desk, [{"name": "fetch"}])
    desk.start(9)
    for hours in range(1, 25):
        desk.clock.at = at(9) + timedelta(hours=hours)
        desk.store.series.overtake(limit=99)
        desk.store.claims.make_ready(limit=99)
    assert len(chain.runs("fetch")) == MAX_RUNS_AT_ONCE


def test_max_runs_and_an_end_of_the_rule_hold_for_generations_at_once(desk: Desk) -> None:
    chain = Hourly(desk, max_runs=2)
    claims = desk.start(9)
    claims += chain.overtaken(10)
    claims += chain.overtaken(12)
    desk.end(claims)
    desk.end(desk.start(12, 1))
    assert chain.runs("load") == {1: DONE, 2: DONE}


def test_a_generation_bound_to_a_task_outside_the_chain_holds_the_next_one_back(desk: Desk) -> None:
    outside = desk.scheduler.schedule("Import", when="at 20:00").record.task.id
    chain = Hourly(desk, [{"name": "fetch"}, {"name": "load", "after": ["fetch", outside]}])
    desk.end(desk.start(9))
    assert chain.overtaken(10) == []
    desk.scheduler.reschedule(outside, when="10:30")
    desk.end(desk.start(10, 30))
    assert [(claim.run.number, claim.task.title) for claim in desk.start(10, 31)] == [(1, "Report: load")]
    assert [claim.run.number for claim in chain.overtaken(11)] == [2]


def test_a_task_outside_comes_after_the_generation_that_was_open_when_it_was_scheduled(desk: Desk) -> None:
    chain = Hourly(desk)
    [first] = desk.start(9)
    after = desk.scheduler.schedule("Mail", when="now", after=[chain.id]).record.task.id
    assert chain.overtaken(10) == []
    desk.end([first])
    desk.end(desk.start(10, 1))
    assert desk.scheduler.get(after).record.run.state is not WAITING


def test_a_chain_says_in_its_view_which_generations_also_run(desk: Desk) -> None:
    chain = Hourly(desk)
    desk.start(9)
    chain.overtaken(10)
    view = desk.scheduler.get(chain.id)
    assert view.record.last_run is None
    assert "generation 1 continues: fetch (running), load (waiting)" in view.warnings
    _, reasons = desk.scheduler.explain(chain.id)
    assert "generation 1 continues: fetch (running), load (waiting)" in reasons


def test_a_replay_in_a_generation_that_goes_on_lets_its_steps_follow(desk: Desk) -> None:
    chain = Hourly(desk)
    [first] = desk.start(9)
    desk.end([first], Failed("away"))
    assert chain.runs("load") == {1: FAILED, 2: WAITING}
    [second] = desk.start(10)
    [third] = chain.overtaken(11)
    desk.end_anew([second], Failed("away"))
    assert chain.runs("load") == {1: FAILED, 2: FAILED, 3: WAITING}
    desk.end([third])
    [letter] = [each for each in desk.scheduler.letters.page()[0] if each.run_id == second.run.id]
    desk.scheduler.letters.replay([letter.run_id])
    [again] = [claim for claim in desk.start(11, 5) if claim.run.number == 2]
    desk.end([again])
    assert chain.runs("load") == {1: FAILED, 2: SCHEDULED, 3: RUNNING}


def spawning(desk: Desk, claim: Claim) -> None:
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=desk.store.dependencies.known)
    spawned = FanOut(desk.store, planner, TenantQuotas()).plan(claim.task, [{"name": "one"}])
    desk.store.claims.settle([settlement(claim, spawned=tuple(spawned))])


def test_a_generation_that_has_spawned_tasks_holds_the_next_one_back(desk: Desk) -> None:
    chain = Hourly(desk)
    spawning(desk, *desk.start(9))
    [one] = desk.start(9, 1)
    assert chain.overtaken(10) == []
    desk.end([one])
    desk.end(desk.start(10, 1))
    assert chain.runs("fetch") == {1: DONE, 2: SCHEDULED}


@on_each_database
def test_the_steps_of_an_older_generation_wait_for_what_its_run_spawns_and_the_newer_ones_do_not(desk: Desk) -> None:
    chain = Hourly(desk)
    [first] = desk.start(9)
    [second] = chain.overtaken(10)
    spawning(desk, first)
    desk.end([second])
    assert chain.runs("load") == {1: WAITING, 2: SCHEDULED}
    view = desk.scheduler.get(chain.id)
    assert view.chain
    assert [step.name for step in view.chain.steps] == ["fetch", "load"]
    [one] = [claim for claim in desk.start(10, 1) if claim.task.id not in chain.steps.values()]
    desk.end([one])
    assert chain.runs("load") == {1: SCHEDULED, 2: RUNNING}


@on_each_database
def test_the_store_finds_nothing_to_repair_in_generations_at_once(desk: Desk) -> None:
    chain = Hourly(desk)
    desk.start(9)
    chain.overtaken(10)
    assert desk.store.dependencies.repair(limit=9) == 0
    assert chain.runs("load") == {1: WAITING, 2: WAITING}


@on_each_database
def test_a_task_outside_the_chain_reads_the_result_of_the_run_that_ended_last(desk: Desk) -> None:
    chain = Hourly(desk)
    [first] = desk.start(9)
    [second] = chain.overtaken(10)
    mail = desk.scheduler.schedule("Mail", after=[chain.steps["fetch"]]).record.task.id
    desk.end_anew([second], Done("newer", result="of 10"))
    desk.clock.at = at(10, 1)
    desk.end_anew([first], Done("older", result="of 9"))
    assert desk.store.dependencies.results("local", mail) == {chain.steps["fetch"]: "of 9"}


@on_each_database
def test_a_schema_is_compared_with_the_result_that_the_task_behind_it_reads(desk: Desk) -> None:
    imports = desk.hourly(overlap="allow_all")
    [first] = desk.start(9)
    desk.clock.at = at(10)
    desk.store.series.overtake(limit=9)
    desk.end_anew(desk.start(10), Done("newer", result="of 10"))
    rows = {"type": "string"}
    mail = desk.scheduler.schedule("Mail", after=[imports], valid_output=rows).record.task.id
    desk.clock.at = at(10, 1)
    desk.end_anew([first], Done("older", result=9))
    assert desk.store.dependencies.results("local", mail) == {imports: 9}
    assert desk.scheduler.get(mail).record.run.state is FAILED

"""Ends in chains that the random walk over them had found followed wrongly, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.request import StepArguments
from duetime.scheduler.run_records import Claim, EndedRun
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from duetime.scheduler.view_parts import Occurrence
from duetime.scheduler.views import TaskFilter, TaskView

from tests.builders import TENANT, Clock, restarted, settlement
from tests.contracts.store.databases import on_each_database

ALICE = Principal(TENANT, "alice")
TWO: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
SKIPPING: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "after_failure": "skip"}]
HOUR = timedelta(hours=1)


@dataclass
class House:
    """A chain, and what is done to its steps by their names."""

    store: Store
    clock: Clock
    scheduler: Scheduler
    fan_out: FanOut
    chain_id: str = ""

    def schedule(self, steps: list[StepArguments], **more: Any) -> None:
        timed = more or {"when": "now"}
        self.chain_id = self.scheduler.schedule("Report", steps=steps, by=ALICE, **timed).record.task.id

    def steps(self) -> dict[str, State]:
        chain = self.scheduler.get(self.chain_id, by=ALICE).chain
        assert chain
        return {step.name: step.state for step in chain.steps}

    def id(self, name: str) -> str:
        chain = self.scheduler.get(self.chain_id, by=ALICE).chain
        assert chain
        return next(step.task_id for step in chain.steps if step.name == name)

    def started(self, name: str) -> Claim:
        return restarted(self.store, self.store.tasks.get(TENANT, self.id(name)))

    def end(self, name: str, to: State = State.SUCCEEDED, spawn: list[dict[str, Any]] | None = None) -> None:
        claim = self.started(name)
        spawned = tuple(self.fan_out.plan(claim.task, spawn)) if spawn else ()
        self.store.claims.settle([settlement(claim, to, spawned=spawned)])

    def settle(self, claim: Claim, to: State = State.SUCCEEDED) -> None:
        self.store.claims.settle([settlement(claim, to)])

    def cancel(self) -> TaskView:
        return self.scheduler.cancel(self.chain_id, by=ALICE)

    def take_back(self, view: TaskView) -> TaskView:
        return self.scheduler.act(self.chain_id, "undo", undo=view.undo, by=ALICE)

    def coming(self) -> tuple[Occurrence, ...]:
        """Return the next times that the chain has."""
        return self.scheduler.get(self.chain_id, by=ALICE).upcoming

    def undone(self, name: str, change: Callable[[str], Any]) -> dict[str, State]:
        """Return the states after a change of a step and its undo."""
        view = change(self.id(name))
        self.scheduler.act(self.id(name), "undo", undo=view.undo, by=ALICE)
        assert self.store.dependencies.repair(limit=99) == 0, "nothing is left to be followed"
        return self.steps()


@pytest.fixture
def house(store: Store, clock: Clock) -> House:
    handlers = Handlers.load(entry_points=False)
    planner = Planner(handlers, "UTC", channels=Channels(), upstreams=store.dependencies.known)
    return House(store, clock, Scheduler(store, planner), FanOut(store, planner, TenantQuotas()))


def test_a_step_that_is_to_run_again_and_is_not_ends_what_comes_after_it_as_before(house: House) -> None:
    house.schedule(TWO)
    house.end("fetch", State.FAILED)
    again = house.scheduler.act(house.id("fetch"), "run_now", by=ALICE)
    assert house.steps() == {"fetch": State.SCHEDULED, "load": State.WAITING}
    house.scheduler.act(house.id("fetch"), "undo", undo=again.undo, by=ALICE)
    assert house.steps() == {"fetch": State.FAILED, "load": State.FAILED}
    assert house.store.dependencies.repair(limit=99) == 0


def test_a_skipped_step_that_is_to_run_and_is_not_is_skipped_again(house: House) -> None:
    house.schedule(SKIPPING)
    house.end("fetch", State.FAILED)
    house.clock.forward(minutes=1)
    assert house.undone("load", lambda task_id: house.scheduler.act(task_id, "run_now", by=ALICE)) == {
        "fetch": State.FAILED,
        "load": State.SKIPPED,
    }


def test_a_step_that_went_on_and_is_not_cancelled_after_all_does_not_wait_again(house: House) -> None:
    house.schedule(TWO)
    house.end("fetch")
    house.scheduler.reschedule(house.id("load"), pause=True, by=ALICE)
    house.scheduler.act(house.id("fetch"), "run_now", by=ALICE)
    assert house.steps() == {"fetch": State.SCHEDULED, "load": State.SCHEDULED}
    assert house.undone("load", lambda task_id: house.scheduler.cancel(task_id, by=ALICE))["load"] is State.SCHEDULED


def test_a_step_whose_upstream_failed_while_it_was_cancelled_fails_with_the_undo_and_never_runs(house: House) -> None:
    house.schedule(TWO)
    house.scheduler.cancel(house.id("load"), by=ALICE)
    house.end("fetch", State.FAILED)
    view = house.scheduler.act(house.id("load"), "undo", by=ALICE)
    assert view.record.run.state is State.FAILED, "the answer says so"
    assert house.steps() == {"fetch": State.FAILED, "load": State.FAILED}


def test_a_step_whose_upstream_succeeded_while_it_was_cancelled_goes_on_with_the_undo(house: House) -> None:
    house.schedule(TWO)
    house.scheduler.cancel(house.id("load"), by=ALICE)
    house.end("fetch")
    view = house.scheduler.act(house.id("load"), "undo", by=ALICE)
    assert (view.record.run.state, house.steps()["load"]) == (State.SCHEDULED, State.SCHEDULED)


def test_a_chain_recurs_also_when_what_a_run_spawned_ends_last(house: House) -> None:
    house.schedule([{"name": "fan"}], repeat="every hour")
    house.clock.forward(hours=1)
    house.end("fan", spawn=[{"name": "one"}])
    assert house.steps() == {"fan": State.SUCCEEDED, "fan/one": State.SCHEDULED}
    house.end("fan/one")
    assert house.steps() == {"fan": State.SCHEDULED}


def test_a_spawned_task_decides_nothing_in_the_next_generation(house: House) -> None:
    house.schedule([{"name": "fan"}, {"name": "sum", "after": ["fan"]}], repeat="every hour")
    house.clock.forward(hours=1)
    house.end("fan", spawn=[{"name": "one"}])
    house.end("fan/one", State.FAILED)
    assert house.steps() == {"fan": State.SCHEDULED, "sum": State.WAITING}
    house.clock.forward(hours=1)
    house.end("fan")
    assert house.steps() == {"fan": State.SUCCEEDED, "sum": State.SCHEDULED}


@on_each_database
def test_a_chain_that_is_cancelled_while_its_last_step_runs_recurs_no_more(house: House) -> None:
    house.schedule([{"name": "fetch"}], repeat="every hour")
    house.clock.forward(hours=1)
    claim = house.started("fetch")
    assert house.cancel().undo is None, "nothing of it can be taken back"
    house.settle(claim)
    assert house.steps() == {"fetch": State.SUCCEEDED}


@pytest.mark.parametrize("times", [1, 2])
def test_a_chain_goes_on_whose_cancel_was_taken_back_while_a_step_ran_that_succeeds(house: House, times: int) -> None:
    house.schedule(TWO, repeat="every hour at :00")
    house.clock.forward(hours=1)
    claim = house.started("fetch")
    for _ in range(times):
        house.take_back(house.cancel())
        house.clock.forward(seconds=1)
    house.settle(claim)
    house.end("load")
    assert house.steps() == {"fetch": State.SCHEDULED, "load": State.WAITING}, "the next generation"


def test_a_chain_ends_whose_cancel_was_taken_back_after_its_running_step_had_stopped(house: House) -> None:
    house.schedule(TWO, repeat="every hour at :00")
    house.clock.forward(hours=1)
    claim = house.started("fetch")
    house.take_back(house.cancel())
    house.settle(claim, State.CANCELLED)
    assert house.steps() == {"fetch": State.CANCELLED, "load": State.CANCELLED}
    assert house.coming() == ()


@on_each_database
def test_a_generation_with_a_cancelled_step_that_no_undo_brings_back_is_shown_as_the_last_one(house: House) -> None:
    house.schedule([{"name": "fetch"}, {"name": "tell"}], repeat="every day at 13:00")
    before = TaskFilter(before=house.clock() + timedelta(days=4))
    assert [row.expected for row in house.scheduler.tasks.list(before, by=ALICE).views] == [False, False] + [True] * 6
    house.clock.forward(hours=1)
    house.settle(house.started("fetch"), State.RETRYING)
    view = house.take_back(house.cancel())
    assert house.steps() == {"fetch": State.CANCELLED, "tell": State.SCHEDULED}
    assert len(view.upcoming) == 1
    assert view.repeat_notes == ("this generation is the last one, since fetch was cancelled",)
    assert not [row for row in house.scheduler.tasks.list(before, by=ALICE).views if row.expected]


def test_a_second_cancel_ends_a_chain_whose_first_one_was_taken_back(house: House) -> None:
    house.schedule(TWO, repeat="every hour at :00")
    house.clock.forward(hours=1)
    claim = house.started("fetch")
    house.take_back(house.cancel())
    house.settle(claim)
    house.clock.forward(seconds=1)
    last = house.started("load")
    house.cancel()
    house.settle(last)
    assert house.steps() == {"fetch": State.SUCCEEDED, "load": State.SUCCEEDED}
    assert house.coming() == ()


def test_the_next_generation_may_have_the_time_to_which_a_step_was_moved(house: House) -> None:
    house.schedule(TWO, repeat="every hour")
    house.clock.forward(hours=1)
    house.scheduler.reschedule(house.id("load"), when=house.clock() + HOUR, by=ALICE)
    house.end("fetch", State.FAILED)
    assert house.steps() == {"fetch": State.SCHEDULED, "load": State.WAITING}
    assert house.store.tasks.get(TENANT, house.id("load")).run.scheduled_for == house.clock() + HOUR


def test_a_pause_of_a_step_that_is_asked_to_stop_is_taken_back_with_that_of_its_chain(house: House) -> None:
    house.schedule(TWO)
    house.started("fetch")
    house.scheduler.cancel(house.id("fetch"), by=ALICE)
    paused = house.scheduler.reschedule(house.chain_id, pause=True, by=ALICE)
    house.scheduler.act(house.chain_id, "undo", undo=paused.undo, by=ALICE)
    assert not house.store.tasks.get(TENANT, house.id("fetch")).task.paused


def test_a_chain_is_moved_from_when_its_next_attempt_is_due_so_that_a_second_move_drives_no_step_away(
    house: House,
) -> None:
    house.schedule([{"name": "fetch"}, {"name": "load", "after": ["fetch"]}, {"name": "clean"}], when="now")
    claim = house.started("fetch")
    running = house.started("clean")
    house.store.claims.settle([settlement(claim, State.RETRYING, wake_at=house.clock() + HOUR)])
    for hours in (20, 40):
        to = house.clock() + hours * HOUR
        house.scheduler.reschedule(house.chain_id, when=to, by=ALICE)
        fetch, load = (house.store.tasks.get(TENANT, house.id(name)).run for name in ("fetch", "load"))
        assert (fetch.wake_at, load.scheduled_for) == (to, to)
        house.clock.forward(hours=1)
    assert house.store.claims.settle([settlement(running)]), "what runs is left alone, and says nothing of the others"


def test_the_undo_of_a_step_that_ended_with_another_one_is_refused_and_names_that(house: House) -> None:
    house.schedule(TWO)
    view = house.scheduler.cancel(house.id("fetch"), by=ALICE)
    before = house.store.tasks.get(TENANT, house.id("load"))
    with pytest.raises(
        Refused, match=f"{house.id('load')} was not cancelled itself: it did not run: {house.id('fetch')}"
    ):
        house.scheduler.act(house.id("load"), "undo", by=ALICE)
    assert house.store.tasks.get(TENANT, house.id("load")) == before
    house.scheduler.act(house.id("fetch"), "undo", undo=view.undo, by=ALICE)
    assert house.steps() == {"fetch": State.SCHEDULED, "load": State.WAITING}
    house.scheduler.cancel(house.id("load"), by=ALICE)
    assert house.scheduler.act(house.id("load"), "undo", by=ALICE).record.run.state is State.WAITING


def test_tasks_outside_hold_back_the_first_generation_alone(house: House) -> None:
    first = house.scheduler.schedule("Import", when="in 1 hour", by=ALICE).record.task.id
    house.schedule([{"name": "run"}], after=[first], repeat="every day at 12:30")
    house.clock.forward(hours=3)
    assert house.steps() == {"run": State.WAITING}
    house.settle(restarted(house.store, house.store.tasks.get(TENANT, first)))
    for _ in range(2):
        house.end("run")
        assert house.steps() == {"run": State.SCHEDULED}, "the next generation waits for its time alone"
        house.clock.forward(days=1)


def test_a_failure_outside_ends_the_steps_of_one_generation_not_of_each(house: House) -> None:
    first = house.scheduler.schedule("Import", when="in 1 hour", by=ALICE).record.task.id
    steps: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch", first]}]
    house.schedule(steps, after=[first], repeat="every day at 13:00")
    house.clock.forward(hours=1)
    house.settle(restarted(house.store, house.store.tasks.get(TENANT, first)), State.FAILED)
    for _ in range(2):
        assert house.steps() == {"fetch": State.SCHEDULED, "load": State.WAITING}, "the next generation stands"
        house.clock.forward(days=1)
        house.end("fetch")
        assert house.steps()["load"] is State.SCHEDULED
        house.end("load")


def test_the_ends_that_no_attempt_made_are_notified_each_once_with_what_metrics_count(house: House) -> None:
    found: list[EndedRun] = []
    house.store.commits.listen(ended=found.extend)
    house.schedule([{"name": "fetch"}, {"name": "load", "after": ["fetch"], "deadline": house.clock.at + HOUR}])
    house.store.claims.settle([settlement(house.started("fetch"), State.FAILED)])
    [failed] = found
    assert failed == EndedRun(failed.run_id, Tier.NORMAL, "reminder", State.FAILED, house.clock.at + HOUR, None)
    found.clear()
    house.schedule(TWO, when="tomorrow")
    one = house.scheduler.schedule("Call John", when="tomorrow", by=ALICE).record.task.id
    house.scheduler.cancel(one, by=ALICE)
    house.scheduler.cancel(house.chain_id, by=ALICE)
    many = [house.scheduler.schedule(f"Call {each}", when="tomorrow", by=ALICE).record.task.id for each in range(3)]
    house.scheduler.bulk.change("cancel", task_ids=many, by=ALICE)
    assert [end.state for end in found] == [State.CANCELLED] * 6
    assert len({end.run_id for end in found}) == 6

"""The policy of a chain that recurs is changed: how its generations follow its rule."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Failed
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Overlap, RepeatPolicy

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

STEPS: list[StepArguments] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def chain_of(desk: Desk, steps: list[StepArguments] = STEPS, **given: Any) -> str:
    view = desk.scheduler.schedule("Report", steps=steps, **{"repeat": "every hour at :00", **given})
    assert view.chain
    return view.chain.id


def step_of(desk: Desk, chain_id: str, place: int = 0) -> str:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return chain.steps[place].task_id


def policies(desk: Desk, chain_id: str) -> list[RepeatPolicy | None]:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return [desk.scheduler.get(step.task_id).record.task.repeat_policy for step in chain.steps]


@on_each_database
def test_a_new_policy_is_that_of_every_step_and_holds_for_the_generation_in_progress(desk: Desk) -> None:
    chain_id = chain_of(desk)
    [first] = desk.start(9)
    view = desk.scheduler.reschedule(chain_id, repeat_policy={"overlap": "allow_all"})
    assert policies(desk, chain_id) == [RepeatPolicy(overlap=Overlap.ALLOW_ALL)] * 2
    assert view.record.task.repeat_policy == RepeatPolicy(overlap=Overlap.ALLOW_ALL)
    desk.clock.at = at(10)
    while desk.store.series.overtake(limit=9).tasks:
        pass
    assert [claim.run.number for claim in desk.start(10)] == [2]
    assert first.run.number == 1


def test_the_undo_of_a_new_policy_brings_the_old_one_back(desk: Desk) -> None:
    chain_id = chain_of(desk, repeat_policy={"pause_after": 3})
    view = desk.scheduler.reschedule(chain_id, repeat_policy={"overlap": "buffer_all", "catchup_window": "1 hour"})
    assert {policy.pause_after for policy in policies(desk, chain_id) if policy} == {None}, "it takes the place of all"
    desk.scheduler.act(chain_id, "undo", undo=view.undo)
    assert policies(desk, chain_id) == [RepeatPolicy(pause_after=3)] * 2


def test_a_dry_run_shows_the_new_policy_and_stores_nothing(desk: Desk) -> None:
    chain_id = chain_of(desk)
    view = desk.scheduler.reschedule(chain_id, repeat_policy={"overlap": "buffer_one"}, dry_run=True)
    assert view.record.task.repeat_policy == RepeatPolicy(overlap=Overlap.BUFFER_ONE)
    assert policies(desk, chain_id) == [None, None]


def test_a_removed_policy_is_the_usual_one(desk: Desk) -> None:
    chain_id = chain_of(desk, repeat_policy={"overlap": "cancel_other"})
    desk.scheduler.reschedule(chain_id, remove=["repeat_policy"])
    assert policies(desk, chain_id) == [None, None]
    desk.start(9)
    desk.clock.at = at(10)
    assert desk.store.series.overtake(limit=9).tasks == []


@on_each_database
def test_each_step_has_an_event_with_the_policy_before_and_after(desk: Desk) -> None:
    chain_id = chain_of(desk)
    desk.scheduler.reschedule(chain_id, repeat_policy={"overlap": "buffer_one"})
    found = EventFilter(task_id=step_of(desk, chain_id, 1), kind=EventKind.RESCHEDULED)
    [event] = desk.scheduler.past.events(found).events
    assert event.before == {"repeat_policy": None}
    assert event.after
    assert "buffer_one" in str(event.after["repeat_policy"])


@on_each_database
def test_the_failures_that_a_policy_counts_are_those_since_the_last_good_generation(desk: Desk) -> None:
    chain_id = chain_of(desk)
    desk.end(desk.start(9), Failed("away"))
    desk.scheduler.reschedule(chain_id, repeat_policy={"pause_after": 2})
    assert not desk.scheduler.get(chain_id).record.task.paused
    desk.end(desk.start(10), Failed("away"))
    assert desk.scheduler.get(chain_id).record.task.paused


@on_each_database
def test_the_generation_to_come_moves_off_a_date_that_is_left_out_and_back(desk: Desk) -> None:
    chain_id = chain_of(desk, repeat="every day at 13:00")
    left_out = desk.scheduler.reschedule(chain_id, repeat_policy={"except": ["2026-11-23", "2026-11-24"]})
    assert left_out.record.run.scheduled_for.day == 25
    back = desk.scheduler.reschedule(chain_id, repeat_policy={"except": ["2026-11-24"]})
    assert back.record.run.scheduled_for.day == 23
    desk.scheduler.act(chain_id, "undo", undo=back.undo)
    assert desk.scheduler.get(chain_id).record.run.scheduled_for.day == 25


def test_a_jitter_is_said_and_holds_from_the_next_generation_on(desk: Desk) -> None:
    chain_id = chain_of(desk)
    view = desk.scheduler.reschedule(chain_id, repeat_policy={"jitter": "10 min"})
    assert "each run starts between 09:00 and 09:10 UTC; jitter '0 s' is exact" in str(view.warnings)
    for minute in (0, 1):
        desk.end(desk.start(9, minute))
    run = desk.scheduler.get(step_of(desk, chain_id)).record.run
    assert run.wake_at
    assert run.wake_at > run.scheduled_for


def test_a_policy_and_a_new_rule_are_one_change(desk: Desk) -> None:
    chain_id = chain_of(desk)
    view = desk.scheduler.reschedule(chain_id, repeat="every day at 13:00", repeat_policy={"except": ["2026-11-23"]})
    assert f"{view.record.run.scheduled_for:%d %H}" == "24 13"
    assert policies(desk, chain_id)[1] is not None


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"repeat_policy": {"overlap": "allow_all", "coalesce": "all"}}, "coalesce all runs what allow_all leaves out"),
        ({"repeat_policy": {"overlap": "skp"}}, "not a known rule"),
        ({"repeat": "never", "repeat_policy": {"overlap": "skip"}}, "only a recurring task has one"),
    ],
)
def test_a_policy_that_a_chain_cannot_have_is_refused_and_nothing_is_changed(
    desk: Desk, given: dict[str, Any], why: str
) -> None:
    chain_id = chain_of(desk)
    with pytest.raises(InvalidArgument, match=why) as refused:
        desk.scheduler.reschedule(chain_id, **given)
    assert refused.value.argument.startswith("repeat_policy")
    assert policies(desk, chain_id) == [None, None]


def test_the_policy_of_a_step_is_that_of_its_chain_and_a_chain_that_runs_once_has_none(desk: Desk) -> None:
    chain_id = chain_of(desk)
    with pytest.raises(InvalidArgument, match="a step repeats with its chain") as refused:
        desk.scheduler.reschedule(step_of(desk, chain_id), repeat_policy={"overlap": "skip"})
    assert refused.value.example == f"task_id='{chain_id}'"
    once = desk.scheduler.schedule("Once", when="in 1 hour", steps=STEPS).chain
    assert once
    with pytest.raises(InvalidArgument, match="this chain runs once"):
        desk.scheduler.reschedule(once.id, repeat_policy={"overlap": "skip"})

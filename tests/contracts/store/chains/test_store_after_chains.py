"""Tasks that come after whole chains: after all steps, on success alone where nothing else is said."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

SCHEDULED, WAITING, FAILED = State.SCHEDULED, State.WAITING, State.FAILED
FORK: list[StepArguments] = [
    {"name": "fetch"},
    {"name": "load", "after": ["fetch"]},
    {"name": "clean", "after": ["fetch"], "after_failure": "run_anyway"},
]


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def chain(desk: Desk, **more: Any) -> str:
    return desk.scheduler.schedule("Report", **{"when": "in 1 hour", "steps": FORK, **more}).record.task.id


def after(desk: Desk, *ids: str, **more: Any) -> str:
    return desk.scheduler.schedule("Mail", after=ids, **more).record.task.id


def state(desk: Desk, task_id: str) -> State:
    return desk.scheduler.get(task_id).record.run.state


def run(desk: Desk, minute: int, outcome: Outcome = Done("done")) -> None:  # noqa: B008 - a frozen value
    """Start what is due, and end it."""
    claims = desk.start(9, minute)
    assert claims
    desk.end(claims, outcome)


@on_each_database
def test_a_task_comes_after_all_steps_of_a_chain(desk: Desk) -> None:
    chain_id = chain(desk)
    mail = after(desk, chain_id)
    assert state(desk, mail) is WAITING
    run(desk, 0, Done("fetched", result={"rows": 3}))
    assert state(desk, mail) is WAITING, "the last steps are to come"
    run(desk, 1, Done("done", result={"lines": 1}))
    assert state(desk, mail) is SCHEDULED
    found = desk.store.dependencies.results("local", mail)
    assert found == {chain_id: {"fetch": {"rows": 3}, "load": {"lines": 1}, "clean": {"lines": 1}}}


def test_it_goes_on_only_where_the_whole_chain_has_succeeded(desk: Desk) -> None:
    mail, anyway = after(desk, first := chain(desk)), after(desk, first, after_failure="run_anyway")
    run(desk, 0, Failed("no rows"))
    assert state(desk, mail) is FAILED, "its last step runs anyway, which is no success of the chain"
    assert state(desk, anyway) is WAITING
    run(desk, 1)
    assert state(desk, anyway) is SCHEDULED


def test_a_replay_of_the_step_that_failed_lets_what_comes_after_the_chain_go_on(desk: Desk) -> None:
    chain_id = chain(desk)
    mail = after(desk, chain_id)
    run(desk, 0, Failed("no rows"))
    desk.scheduler.reschedule(desk.scheduler.ends.tasks_of(chain_id)[0], when="now")
    assert state(desk, mail) is WAITING
    run(desk, 1)
    run(desk, 2)
    assert state(desk, mail) is SCHEDULED


def test_a_step_and_a_chain_come_after_a_whole_chain(desk: Desk) -> None:
    chain_id = chain(desk)
    step: StepArguments = {"name": "mail", "after": [chain_id, "look"]}
    later = chain(desk, when=None, steps=[{"name": "look", "when": "in 1 hour"}, step])
    whole = chain(desk, when=None, after=[chain_id])
    run(desk, 0)
    assert [state(desk, each) for each in desk.scheduler.ends.tasks_of(later)] == [State.SUCCEEDED, WAITING]
    run(desk, 1)
    assert state(desk, desk.scheduler.ends.tasks_of(later)[1]) is SCHEDULED
    assert [state(desk, each) for each in desk.scheduler.ends.tasks_of(whole)] == [SCHEDULED, WAITING, WAITING]


def test_results_of_the_last_steps_alone_have_to_be_valid(desk: Desk) -> None:
    mail = after(desk, chain(desk), valid_output={"type": "object", "required": ["lines"]})
    run(desk, 0, Done("fetched", result={"rows": 3}))
    assert state(desk, mail) is WAITING
    run(desk, 1, Done("done", result={"rows": 3}))
    assert state(desk, mail) is FAILED


def test_it_comes_after_the_generation_of_a_chain_that_recurs_which_is_open(desk: Desk) -> None:
    chain_id = chain(desk, when=None, repeat="every hour at :00")
    mail = after(desk, chain_id)
    run(desk, 0)
    run(desk, 1)
    assert desk.scheduler.get(chain_id).record.run.scheduled_for == at(10)
    assert state(desk, mail) is SCHEDULED


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("c_nothing", "after: there is no task 'c_nothing'. Accepted: ids of tasks and chains"),
        ("c_7k3m9qx2w4hb", "after: there is no task 'c_7k3m9qx2w4hb'"),
    ],
)
def test_a_chain_that_there_is_not_is_refused(desk: Desk, wanted: str, said: str) -> None:
    with pytest.raises((InvalidArgument, InvalidArguments), match=said):
        after(desk, wanted)


def test_a_chain_that_has_failed_is_refused_and_one_of_another_tenant_is_unknown(desk: Desk) -> None:
    chain_id = chain(desk)
    run(desk, 0, Failed("no rows"))
    with pytest.raises((InvalidArgument, InvalidArguments), match="has failed already, so this would never run"):
        after(desk, chain_id)
    assert not desk.store.dependencies.known("globex", [chain_id])

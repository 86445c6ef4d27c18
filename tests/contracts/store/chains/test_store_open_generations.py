"""Older generations of a chain that are still open: retention, pauses, and results of their own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.dispatch.retention_run import delete_due
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.history.retention import RetentionKind, RetentionPolicy, RetentionRule
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Retry
from duetime.scheduler.request import StepArguments
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at
from tests.contracts.store.hourly_chain import Hourly

TWO_BEFORE: list[StepArguments] = [{"name": "a"}, {"name": "b"}, {"name": "load", "after": ["a", "b"]}]
DONE, SCHEDULED, RUNNING, WAITING = State.SUCCEEDED, State.SCHEDULED, State.RUNNING, State.WAITING


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def with_open_first(desk: Desk, **given: Any) -> tuple[Hourly, Claim]:
    """Return a chain whose newest generation is over, and the run of b in the first one, where a has succeeded."""
    chain = Hourly(desk, TWO_BEFORE, **given)
    a, b = sorted(desk.start(9), key=lambda claim: claim.task.title)
    desk.end([a])
    desk.end(chain.overtaken(10))
    desk.end(desk.start(10, 1))
    return chain, b


def swept(desk: Desk, kind: RetentionKind) -> None:
    delete_due(desk.store, RetentionPolicy((RetentionRule(kind, timedelta(days=1), unread=True),)), [kind])


@on_each_database
def test_retention_leaves_the_runs_of_a_generation_until_its_last_step_has_ended(desk: Desk) -> None:
    chain, b = with_open_first(desk)
    desk.end(chain.overtaken(11))
    desk.end(desk.start(11, 1))
    desk.clock.at = at(11) + timedelta(days=3)
    swept(desk, RetentionKind.RUNS)
    assert (chain.runs("a")[1], chain.runs("b")[1], 2 in chain.runs("a")) == (DONE, RUNNING, False)
    desk.end([b])
    assert chain.runs("load")[1] is SCHEDULED


@on_each_database
def test_retention_leaves_the_tasks_of_a_chain_whose_older_generation_is_open(desk: Desk) -> None:
    chain, b = with_open_first(desk, max_runs=2)
    desk.clock.at = at(11) + timedelta(days=60)
    desk.store.tasks.forget_keys(limit=9)
    swept(desk, RetentionKind.TASKS)
    assert (chain.runs("a"), chain.runs("b")) == ({1: DONE, 2: DONE}, {1: RUNNING, 2: DONE})
    desk.end([b])
    assert chain.runs("load") == {1: SCHEDULED, 2: DONE}


def test_a_pause_holds_an_older_generation_whose_newer_one_is_over(desk: Desk) -> None:
    chain, b = with_open_first(desk, max_runs=2)
    desk.end_anew([b], Done("fetched"))
    desk.clock.at = at(10, 5)
    [load] = desk.store.claims.make_ready(limit=9)
    assert (load.task_id, chain.runs("load")[1]) == (chain.steps["load"], State.READY)
    desk.scheduler.reschedule(chain.id, pause=True)
    assert chain.runs("load") == {1: SCHEDULED, 2: DONE}
    desk.nothing_due(11)
    desk.scheduler.reschedule(chain.id, pause=False)
    assert [claim.run.number for claim in desk.start(11, 1)] == [1]


def test_a_pause_holds_the_next_attempt_in_an_older_generation_until_the_chain_goes_on(desk: Desk) -> None:
    chain = Hourly(desk, retry={"max_attempts": 5})
    desk.end(desk.start(9), Retry("away", after=timedelta(minutes=90)))
    desk.end(chain.overtaken(10))
    assert (chain.runs("fetch"), chain.runs("load")) == ({1: State.RETRYING, 2: DONE}, {1: WAITING, 2: SCHEDULED})
    desk.scheduler.reschedule(chain.id, pause=True)
    desk.nothing_due(10, 45)
    desk.scheduler.reschedule(chain.id, pause=False)
    resumed = desk.start(10, 46)
    assert sorted((claim.run.number, claim.task.id) for claim in resumed) == [
        (1, chain.steps["fetch"]),
        (2, chain.steps["load"]),
    ]


@on_each_database
def test_a_step_gets_no_result_of_an_earlier_generation_for_one_that_did_not_start_in_its_own(desk: Desk) -> None:
    fetch: StepArguments = {"name": "fetch", "deadline": "10 minutes", "deadline_type": "hard"}
    chain = Hourly(desk, [fetch, {"name": "mail", "after": ["fetch"], "after_failure": "run_anyway"}])
    desk.end(desk.start(9), Done("fetched", result="of 9"))
    [mail] = desk.start(9, 1)
    assert chain.inputs(mail) == {"fetch": "of 9"}
    desk.end([mail])
    desk.clock.at = at(10, 30)
    desk.expire()
    [mail] = desk.start(10, 31)
    assert (chain.runs("fetch"), mail.run.number) == ({1: DONE, 2: State.EXPIRED}, 2)
    assert chain.inputs(mail) == {}


def test_a_step_that_is_run_now_gets_the_last_result_of_one_that_is_still_to_run(desk: Desk) -> None:
    chain = Hourly(desk, [{"name": "fetch"}, {"name": "mail", "after": ["fetch"]}])
    desk.end(desk.start(9), Done("fetched", result="of 9"))
    desk.end(desk.start(9, 1))
    desk.scheduler.act(chain.steps["mail"], "run_now")
    [mail] = desk.start(9, 2)
    assert (mail.run.number, chain.inputs(mail)) == (2, {"fetch": "of 9"})

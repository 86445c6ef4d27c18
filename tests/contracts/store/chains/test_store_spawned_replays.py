"""Tasks that a run spawns in an earlier generation of a chain: the steps behind it there wait for them."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.request import StepArguments
from duetime.scheduler.run_records import Claim
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import Clock, settlement
from tests.contracts.store.chains.test_store_chain_replays import WAYS, Daily

STEPS: list[StepArguments] = [
    {"name": "pages"},
    {"name": "sum", "after": ["pages"]},
    {"name": "mail", "after": ["sum"]},
]
FAILED, SCHEDULED, WAITING = State.FAILED, State.SCHEDULED, State.WAITING


def spawn(chain: Daily, claim: Claim, *names: str, **values: Any) -> None:
    """End a run that spawns these tasks, which are known by their names from now on."""
    planned = FanOut(chain.store, chain.planner, TenantQuotas()).plan(claim.task, [{"name": name} for name in names])
    chain.store.claims.settle([settlement(claim, spawned=tuple(planned), **values)])
    chain.steps |= {name: item.task.id for name, item in planned}


@pytest.fixture
def failed(store: Store, clock: Clock) -> Daily:
    """Return a chain whose first generation failed ten minutes ago, at its first step."""
    chain = Daily(store, clock, STEPS)
    chain.fail("pages")
    clock.forward(minutes=10)
    return chain


@pytest.fixture
def replayed(failed: Daily) -> Daily:
    """Return a chain whose first step was replayed, and spawned two tasks."""
    failed.scheduler.act(failed.id, "run_now")
    spawn(failed, failed.start("pages"), "one", "two", result="pages")
    return failed


def test_the_steps_behind_a_replay_follow_once_all_that_it_spawned_has_ended(replayed: Daily) -> None:
    assert replayed.states("sum") == [FAILED]
    replayed.end("one", result=1)
    assert replayed.states("sum") == [FAILED]
    replayed.end("two", result=2)
    assert (replayed.states("sum"), replayed.states("mail")) == ([FAILED, SCHEDULED], [FAILED])
    claim = replayed.start("sum")
    given = replayed.store.dependencies.results("local", claim.task.id, claim.run)
    assert given == {"pages": "pages", "pages/one": 1, "pages/two": 2}
    replayed.store.claims.settle([settlement(claim)])
    assert replayed.states("mail") == [FAILED, SCHEDULED]


def test_the_generation_to_come_neither_waits_for_them_nor_reads_their_results(replayed: Daily) -> None:
    chain = replayed.scheduler.get(replayed.id).chain
    assert chain
    assert {step.name for step in chain.steps} == {"pages", "sum", "mail"}
    replayed.clock.at = replayed.runs("pages", number=2)[0].scheduled_for
    replayed.end("pages", again=False, result="newer")
    assert replayed.states("sum", number=2) == [SCHEDULED]
    replayed.end("one", result=1)
    claim = replayed.start("sum", again=False)
    assert replayed.store.dependencies.results("local", claim.task.id, claim.run) == {"pages": "newer"}


def test_a_spawned_task_that_fails_holds_the_steps_until_it_is_replayed(replayed: Daily) -> None:
    replayed.end("one")
    replayed.fail("two")
    assert replayed.states("sum") == [FAILED]
    replayed.scheduler.act(replayed.steps["two"], "run_now")
    replayed.end("two", again=False)
    assert replayed.states("sum") == [FAILED, SCHEDULED]


def test_tasks_that_a_spawned_task_spawns_are_waited_for_as_well(replayed: Daily) -> None:
    replayed.end("one")
    spawn(replayed, replayed.start("two"), "three")
    assert replayed.states("sum") == [FAILED]
    replayed.end("three", result=3)
    claim = replayed.start("sum")
    given = replayed.store.dependencies.results("local", claim.task.id, claim.run)
    assert (claim.run.current, given["pages/two/three"]) == (False, 3)


def test_a_replay_counts_with_its_own_tasks_and_not_with_those_of_the_run_before_it(store: Store, clock: Clock) -> None:
    total: StepArguments = {"name": "sum", "after": ["pages"], "valid_output": {"type": "string"}}
    chain = Daily(store, clock, [{"name": "pages"}, total])
    spawn(chain, chain.start("pages"), "one", result=0)
    chain.fail("one")
    clock.forward(minutes=10)
    chain.scheduler.act(chain.id, "run_now")
    spawn(chain, chain.start("pages"), "four", result="pages")
    chain.end("four", result=4)
    assert chain.states("sum") == [FAILED, SCHEDULED]
    claim = chain.start("sum")
    given = chain.store.dependencies.results("local", claim.task.id, claim.run)
    assert given == {"pages": "pages", "pages/four": 4}


@pytest.fixture
def stranded(store: Store, clock: Clock) -> Daily:
    """Return a chain whose first generation failed with a task that its first step had spawned."""
    chain = Daily(store, clock, STEPS)
    spawn(chain, chain.start("pages"), "one", "two", result="pages")
    chain.end("one", result=1)
    chain.fail("two")
    assert chain.states("sum") == [FAILED]
    clock.forward(minutes=10)
    return chain


@pytest.mark.parametrize("way", ["a replay of the chain", "run now of the chain"])
def test_a_step_that_failed_with_a_spawned_task_follows_that_task_and_no_replay_of_the_chain(
    stranded: Daily, way: str
) -> None:
    spawned = stranded.steps["two"]
    with pytest.raises(Refused, match=rf"sum of {stranded.id} failed with a task .* {spawned} .*Replay that task"):
        WAYS[way](stranded.scheduler, stranded.id, "")
    stranded.scheduler.act(spawned, "run_now")
    stranded.end("two", again=False, result=2)
    claim = stranded.start("sum")
    assert (claim.run.current, claim.run.number) == (False, 1)
    given = stranded.store.dependencies.results("local", claim.task.id, claim.run)
    assert given == {"pages": "pages", "pages/one": 1, "pages/two": 2}

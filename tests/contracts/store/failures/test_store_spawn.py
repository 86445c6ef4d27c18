"""Fan-out: the tasks that a run spawns are stored with its end, and what comes after it waits for all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.run_records import Verdict
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier

from tests.builders import TENANT, restarted, settlement

ALICE = Principal(TENANT, "alice")
PAGES: list[dict[str, Any]] = [{"name": "one"}, {"name": "two"}, {"name": "sum", "after": ["one", "two"]}]


@pytest.fixture
def planner(store: Store) -> Planner:
    handlers = Handlers.load(entry_points=False)
    return Planner(handlers, "UTC", channels=Channels(), upstreams=store.dependencies.known)


@pytest.fixture
def fan_out(store: Store, planner: Planner) -> FanOut:
    return FanOut(store, planner, TenantQuotas())


@pytest.fixture
def scheduler(store: Store, planner: Planner) -> Scheduler:
    return Scheduler(store, planner)


def states(scheduler: Scheduler, chain_id: str) -> dict[str, State]:
    view = scheduler.get(chain_id, by=ALICE)
    assert view.chain
    return {step.name: step.state for step in view.chain.steps}


def ids(scheduler: Scheduler, chain_id: str) -> dict[str, str]:
    view = scheduler.get(chain_id, by=ALICE)
    assert view.chain
    return {step.name: step.task_id for step in view.chain.steps}


def a_chain(scheduler: Scheduler) -> str:
    steps = [{"name": "pages", "when": "now"}, {"name": "report", "after": ["pages"]}]
    return scheduler.schedule("Book", steps=steps, priority="high", by=ALICE).record.task.id  # type: ignore[arg-type]  # plain


def test_a_spawned_task_is_stored_with_the_end_of_its_run_and_waited_for(
    store: Store, scheduler: Scheduler, fan_out: FanOut
) -> None:
    freed: list[str] = []
    store.commits.listen(freed.extend)
    chain_id = a_chain(scheduler)
    claim = restarted(store, store.tasks.get(TENANT, ids(scheduler, chain_id)["pages"]))
    spawned = tuple(fan_out.plan(claim.task, PAGES))
    assert store.claims.settle([settlement(claim, spawned=spawned)]) == [Verdict.SETTLED]
    found = ids(scheduler, chain_id)
    assert list(found) == ["pages", "pages/one", "pages/sum", "pages/two", "report"]
    assert sorted(freed) == sorted(found[f"pages/{name}"] for name in ("one", "two", "sum"))
    assert states(scheduler, chain_id) == {
        "pages": State.SUCCEEDED, "pages/one": State.SCHEDULED, "pages/sum": State.WAITING,
        "pages/two": State.SCHEDULED, "report": State.WAITING,
    }  # fmt: skip
    for name in ("one", "two", "sum"):
        assert states(scheduler, chain_id)["report"] is State.WAITING
        record = store.tasks.get(TENANT, found[f"pages/{name}"])
        assert (record.task.owner, record.task.priority, record.task.title) == (
            "alice",
            Tier.HIGH,
            f"Book: pages: {name}",
        )
        store.claims.settle([settlement(restarted(store, record), result=name)])
    assert states(scheduler, chain_id)["report"] is State.SCHEDULED
    inputs = store.dependencies.results(TENANT, found["report"])
    assert {name: inputs[f"pages/{name}"] for name in ("one", "two", "sum")} == {
        "one": "one",
        "two": "two",
        "sum": "sum",
    }


def test_the_failure_of_a_spawned_task_is_one_for_what_waits_for_it(
    store: Store, scheduler: Scheduler, fan_out: FanOut
) -> None:
    chain_id = a_chain(scheduler)
    claim = restarted(store, store.tasks.get(TENANT, ids(scheduler, chain_id)["pages"]))
    store.claims.settle([settlement(claim, spawned=tuple(fan_out.plan(claim.task, [{"name": "one"}])))])
    one = store.tasks.get(TENANT, ids(scheduler, chain_id)["pages/one"])
    store.claims.settle([settlement(restarted(store, one), State.FAILED, error="torn")])
    assert states(scheduler, chain_id)["report"] is State.FAILED


def test_a_late_result_spawns_nothing(store: Store, scheduler: Scheduler, fan_out: FanOut) -> None:
    chain_id = a_chain(scheduler)
    claim = restarted(store, store.tasks.get(TENANT, ids(scheduler, chain_id)["pages"]))
    end = settlement(claim, spawned=tuple(fan_out.plan(claim.task, [{"name": "one"}])))
    assert store.claims.settle([replace(end, attempt=9)]) == [Verdict.FENCED]
    assert list(ids(scheduler, chain_id)) == ["pages", "report"]


def test_a_spawned_task_that_cannot_be_planned_or_is_beyond_a_quota_is_refused(
    store: Store, scheduler: Scheduler, planner: Planner
) -> None:
    parent = store.tasks.get(TENANT, ids(scheduler, a_chain(scheduler))["pages"]).task
    with pytest.raises(InvalidArgument, match=r"spawn\.one\.action"):
        FanOut(store, planner, TenantQuotas()).plan(parent, [{"name": "one", "action": "no_such_action"}])
    with pytest.raises(InvalidArgument, match="201 steps are too many"):
        FanOut(store, planner, TenantQuotas()).plan(parent, [{"name": f"s{number}"} for number in range(201)])
    with pytest.raises(Refused, match="tenant_open_tasks"):
        FanOut(store, planner, TenantQuotas(open_tasks=2)).plan(parent, [{"name": "one"}])

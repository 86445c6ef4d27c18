"""A task that runs again brings back what had ended with it: all of that counts for the quotas of its tenant."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import Run, State

from tests.builders import restarted, settlement

PAYLOAD = {"message": "x" * 90}
STEPS: list[StepArguments] = [
    {"name": "fetch", "payload": PAYLOAD},
    {"name": "load", "after": ["fetch"], "payload": PAYLOAD},
    {"name": "mail", "after": ["fetch", "load"], "payload": PAYLOAD},
]


def scheduler(store: Store, **quotas: Any) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"), quotas=TenantQuotas(**quotas))


def failed(store: Store) -> list[str]:
    """Store a chain whose first step failed, and the others with it; return its tasks."""
    chain = scheduler(store).schedule("Report", when="now", steps=STEPS).chain
    assert chain
    found = [step.task_id for step in chain.steps]
    store.claims.settle([settlement(restarted(store, store.tasks.get(LOCAL.tenant, found[0])), State.FAILED)])
    return found


def runs(store: Store, task_ids: list[str]) -> list[Run]:
    return [store.tasks.get(LOCAL.tenant, task_id).run for task_id in task_ids]


@pytest.mark.parametrize(("quota", "little", "enough"), [("open_tasks", 2, 3), ("payload_bytes", 300, 330)])
def test_tasks_that_come_back_with_a_rerun_count_as_open_too(
    store: Store, quota: str, little: int, enough: int
) -> None:
    task_ids = failed(store)
    before = runs(store, task_ids)
    with pytest.raises(Refused, match=f"^tenant_{quota}: "):
        scheduler(store, **{quota: little}).act(task_ids[0], "run_now")
    assert runs(store, task_ids) == before
    scheduler(store, **{quota: enough}).act(task_ids[0], "run_now")
    assert [run.ended_at for run in runs(store, task_ids)] == [None] * len(STEPS)


def test_a_step_that_ran_in_spite_of_the_failure_does_not_come_back_and_is_not_counted(store: Store) -> None:
    steps: list[StepArguments] = [*STEPS[:1], {"name": "clean", "after": ["fetch"], "after_failure": "run_anyway"}]
    chain = scheduler(store).schedule("Report", when="now", steps=steps).chain
    assert chain
    for step in chain.steps:
        record = store.tasks.get(LOCAL.tenant, step.task_id)
        store.claims.settle([settlement(restarted(store, record), State.FAILED)])
    scheduler(store, open_tasks=1).act(chain.steps[0].task_id, "run_now")
    assert store.tasks.get(LOCAL.tenant, chain.steps[1].task_id).run.state is State.FAILED

"""Answers and refusals name things in the order of the call, and not of rows in a database."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import BatchWrite, BulkVerb, StoredBatch
from duetime.scheduler.errors import IdempotencyConflict, InvalidArgument, Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.changes.bulk import decision_of
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.quotas import TenantQuotas
from duetime.scheduler.records import Change
from duetime.scheduler.run_records import Verdict
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskRecord

from tests.builders import a_task, restarted, settlement
from tests.contracts.store.rows.test_store_tasks import a_key


@pytest.fixture
def planner(store: Store) -> Planner:
    return Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)


@pytest.fixture
def scheduler(store: Store, planner: Planner) -> Scheduler:
    return Scheduler(store, planner)


def test_a_conflict_of_a_key_lists_differences_as_the_call_gives_them_and_shows_text_as_it_is(store: Store) -> None:
    first = a_key(notify="never", payload={"later": 1, "at": 2}, labels=["Ärger"], title="A", deadline="2 hours")
    store.tasks.add(*a_task(), actor="alice", key=first)
    with pytest.raises(IdempotencyConflict) as conflict:
        store.tasks.add(*a_task(), actor="alice", key=a_key(title="B", payload={"at": 2}, labels=["Öl"]))
    assert list(conflict.value.differences.items()) == [
        ("title", ("A", "B")),
        ("payload", ('{"at": 2, "later": 1}', '{"at": 2}')),
        ("labels", ('["Ärger"]', '["Öl"]')),
        ("deadline", ("2 hours", "not given")),
        ("notify", ("never", "not given")),
    ]
    assert "labels was '[\"Ärger\"]', now '[\"Öl\"]'" in str(conflict.value)


def test_of_several_tasks_that_have_ended_the_first_of_after_is_named(scheduler: Scheduler) -> None:
    ended = [scheduler.schedule(title, when="in 1 hour").record.task.id for title in "abcd"]
    for task_id in ended:
        scheduler.cancel(task_id)
    for after in (ended, ended[::-1]):
        with pytest.raises(InvalidArgument, match=f"^after: {after[0]} .* was cancelled already, so this would never"):
            scheduler.schedule("z", when="in 2 hours", after=after)


def test_a_skipped_run_is_said_to_have_been_skipped(scheduler: Scheduler) -> None:
    lost = scheduler.schedule("Lost", when="in 1 hour").record.task.id
    task_id = scheduler.schedule("Load", after=[lost], after_failure="skip").record.task.id
    scheduler.cancel(lost)
    with pytest.raises(InvalidArgument, match=f"{task_id} .Load. was skipped already, so this would never run"):
        scheduler.schedule("z", when="in 3 hours", after=[task_id])


def test_tasks_of_one_change_are_decided_in_the_order_of_the_call(store: Store, planner: Planner) -> None:
    ids = [Scheduler(store, planner).schedule(title, when="in 1 hour").record.task.id for title in "abcd"]
    for order in (ids, ids[::-1]):
        decided: list[str] = []

        def decide(record: TaskRecord, _last: Any, decided: list[str] = decided) -> Change:
            decided.append(record.task.id)
            raise Refused("It stays.")

        now = store.now()
        decision = replace(decision_of(BulkVerb.PAUSE, planner, now, None), decide=decide)
        batch = StoredBatch(BulkVerb.PAUSE, "", f"b_{order[0]}", now, {}, {}, {}, tuple(order))
        write = BatchWrite(batch, 0, now + timedelta(hours=1), LOCAL.acting("test"), None)
        store.batches.change(LOCAL.tenant, order, decision, write)
        assert decided == order


def test_spawned_steps_and_what_comes_after_them_have_one_order(
    store: Store, planner: Planner, scheduler: Scheduler
) -> None:
    steps: Any = [{"name": "pages", "when": "now"}, {"name": "report", "after": ["pages"]}]
    view = scheduler.schedule("Book", steps=steps)
    assert view.chain
    claim = restarted(store, store.tasks.get(LOCAL.tenant, view.chain.steps[0].task_id))
    names = ["b", "a-b", "ab", "B", "a.c", "a"]
    planned = FanOut(store, planner, TenantQuotas()).plan(claim.task, [{"name": name} for name in names])
    assert store.claims.settle([settlement(claim, spawned=tuple(planned))]) == [Verdict.SETTLED]
    chain = scheduler.get(view.record.task.id).chain
    assert chain
    spawned = [f"pages/{name}" for name in sorted(names)]
    assert [step.name for step in chain.steps] == ["pages", *spawned, "report"]
    assert chain.steps[-1].after == ("pages", *spawned)

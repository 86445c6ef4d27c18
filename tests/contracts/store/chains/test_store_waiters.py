"""Tasks that wait for a run are read with it, and changes of them are sent to those that order ready runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler.chain.dependency import Dependency, DependentTask
from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import NewTask
from duetime.scheduler.rules import changes
from duetime.scheduler.store import Store
from duetime.scheduler.store.statements import waiters
from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import TaskRecord

from tests.builders import NOON, TENANT, Clock, a_task, added, restarted, settlement, with_deadline

HOUR = timedelta(hours=1)


def after(store: Store, *upstreams: TaskRecord, due: timedelta | None = None, **values: Any) -> TaskRecord:
    task, run = a_task(**values)
    deadline = NOON + due if due is not None else None
    waiting = replace(run, state=State.WAITING, wake_at=None, deadline=deadline)
    links = [Dependency(each.task.id) for each in upstreams]
    return store.tasks.add(task, waiting, actor="alice", after=links).record


@pytest.fixture
def rescored(store: Store) -> list[str]:
    told: list[str] = []
    store.commits.listen(rescored=told.extend)
    return told


def test_a_run_becomes_ready_with_all_that_waits_for_it(store: Store) -> None:
    first, other = added(store), added(store)
    second = after(store, first, priority=Tier.HIGH)
    third = after(store, second, first, priority=Tier.CRITICAL, due=HOUR)
    ready = {run.task_id: run for run in store.claims.make_ready(limit=9)}
    assert not ready[other.task.id].waiters
    found = {(each.upstream_id, each.task_id, each.tier) for each in ready[first.task.id].waiters}
    assert found == {
        (first.task.id, second.task.id, Tier.HIGH),
        (first.task.id, third.task.id, Tier.CRITICAL),
        (second.task.id, third.task.id, Tier.CRITICAL),
    }
    again = {run.task_id: run for run in store.claims.ready(limit=9)}
    assert again == ready, "a rebuild reads the same"
    assert store.dependencies.waiters(TENANT, first.task.id) == ready[first.task.id].waiters
    assert not store.dependencies.waiters("globex", first.task.id)


def test_paused_and_ended_tasks_and_deadlines_of_their_own_start_press_nobody(store: Store, clock: Clock) -> None:
    first = added(store)
    after(store, first, paused=True)
    gone = after(store, first)
    store.tasks.change(
        TENANT, gone.task.id, actor="a", kind=EventKind.CANCELLED, decide=partial(changes.cancel, now=store.now())
    )
    task, run = with_deadline(*a_task(), after=HOUR)
    store.tasks.add(task, replace(run, state=State.WAITING, wake_at=None), actor="a", after=[Dependency(first.task.id)])
    passed = after(store, first, due=timedelta(minutes=1))
    clock.forward(minutes=2)
    [ready] = store.claims.make_ready(limit=9)
    assert {each.task_id: each.deadline for each in ready.waiters} == {task.id: None, passed.task.id: None}


def test_ready_runs_are_told_of_when_what_waits_for_them_changes(store: Store, rescored: list[str]) -> None:
    first, later = added(store), added(store, scheduled_for=NOON + HOUR)
    store.claims.make_ready(limit=9)
    second = after(store, first, later)
    assert rescored == [first.run.id], "the other one is in no queue yet"
    rescored.clear()
    third = after(store, second)
    assert rescored == [first.run.id], "all the way up"
    rescored.clear()
    cancel = partial(changes.cancel, now=store.now())
    store.tasks.change(TENANT, third.task.id, actor="a", kind=EventKind.CANCELLED, decide=cancel)
    assert rescored == [first.run.id]
    rescored.clear()
    store.claims.settle([settlement(restarted(store, first))])
    assert rescored == []


def test_a_ready_run_knows_the_tasks_stored_behind_it_in_the_same_call(store: Store, rescored: list[str]) -> None:
    task, run = a_task()
    first = replace(run, state=State.READY, wake_at=None, first_ready_at=NOON)
    second, waits = a_task()
    behind = replace(waits, state=State.WAITING, wake_at=None)
    links = (Dependency(task.id),)
    store.tasks.add_many([NewTask(task, first, "alice"), DependentTask(second, behind, "alice", after=links)])
    assert rescored == [run.id]


def test_a_refused_insertion_notifies_nobody(store: Store, rescored: list[str]) -> None:
    first, theirs = added(store), added(store, tenant="globex")
    store.claims.make_ready(limit=9)
    with pytest.raises(TaskNotFound):
        after(store, first, theirs)
    assert rescored == []


def test_a_statement_that_would_notify_is_refused_in_a_transaction_that_notifies_nobody(store: Store) -> None:
    with pytest.raises(LookupError, match=r"run it in Commits\.write"):
        store._database.write(lambda connection: waiters.note(connection, ["t_000000000000"]))

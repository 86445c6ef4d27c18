"""Chains: all tasks of a call are stored in one transaction, or none, and read together."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from duetime.scheduler.chain.chain import Chain, NewChain
from duetime.scheduler.chain.dependency import Dependency, DependentTask
from duetime.scheduler.errors import IdempotencyConflict, TaskNotFound
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.ids import new_chain_id
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.records import IdempotencyKey, NewTask
from duetime.scheduler.request import AfterFailure
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import ChainName, TaskFilter

from tests.builders import NOON, TENANT, a_task, restarted, settlement

KEY = IdempotencyKey("k1", {"title": "Report"})


def a_chain(*names: str, key: IdempotencyKey | None = None, after: str | None = None) -> NewChain:
    """Return a chain whose steps come one after the other, the first after a task that there is."""
    steps: dict[str, NewTask] = {}
    last = after
    for name in names:
        task, run = a_task(title=f"Report: {name}")
        held = NewTask(task, run, "alice")
        if last:
            held = DependentTask(
                task, replace(run, state=State.WAITING, wake_at=None), "alice", after=(Dependency(last),)
            )
        steps[name] = held if steps else replace(held, key=key)
        last = task.id
    return NewChain(Chain(new_chain_id(), TENANT, "alice", "Report", "America/Edmonton", NOON), steps)


def test_a_chain_is_read_with_its_steps_in_their_order_and_what_each_comes_after(store: Store) -> None:
    new = a_chain("fetch", "load", "report")
    chain_id, added = store.chains.add(new)
    assert [each.created for each in added] == [True] * 3
    found = store.chains.get(TENANT, chain_id)
    assert found.chain == new.chain
    assert [(name, record.task.id, after) for name, record, after, _ in found.steps] == [
        ("fetch", new.steps["fetch"].task.id, ()),
        ("load", new.steps["load"].task.id, ("fetch",)),
        ("report", new.steps["report"].task.id, ("load",)),
    ]
    assert [record.run.state for _, record, *_ in found.steps] == [State.SCHEDULED, State.WAITING, State.WAITING]


def test_nothing_of_a_chain_is_stored_if_one_step_cannot_be(store: Store) -> None:
    new = a_chain("fetch", "load", after="t_7k3m9qx2w4hb")
    with pytest.raises(TaskNotFound):
        store.chains.add(new)
    assert store.tasks.page(TENANT, TaskFilter(), limit=9)[0] == []
    with pytest.raises(TaskNotFound):
        store.chains.get(TENANT, new.chain.id)


def test_a_known_key_returns_the_chain_that_it_made(store: Store) -> None:
    first = store.chains.add(a_chain("fetch", "load", key=KEY))
    again = store.chains.add(a_chain("fetch", "load", key=KEY))
    assert (again.chain_id, again.added) == (first.chain_id, ())
    assert len(store.tasks.page(TENANT, TaskFilter(), limit=9)[0]) == len(first.added)
    other = IdempotencyKey("k1", {"title": "Other"})
    with pytest.raises(IdempotencyConflict):
        store.chains.add(a_chain("fetch", key=other))


def test_a_step_knows_its_chain_and_other_tasks_have_none(store: Store) -> None:
    new = a_chain("fetch", "load")
    store.chains.add(new)
    alone = store.tasks.add(*a_task(), actor="alice").record.task.id
    ids = {name: item.task.id for name, item in new.steps.items()}
    assert store.chains.names(TENANT, [*ids.values(), alone]) == {
        task_id: ChainName(new.chain.id, "Report", name) for name, task_id in ids.items()
    }


def test_a_result_is_an_input_by_the_name_of_its_step_and_elsewhere_by_its_task(store: Store) -> None:
    new = a_chain("fetch", "load")
    _, added = store.chains.add(new)
    fetch, load = (item.task.id for item in new.steps.values())
    store.claims.settle([settlement(restarted(store, added[0].record), result=[1])])
    assert store.dependencies.results(TENANT, load) == {"fetch": [1]}
    task, run = a_task()
    store.tasks.add(task, run, actor="alice", after=[Dependency(fetch)])
    assert store.dependencies.results(TENANT, task.id) == {fetch: [1]}


def test_a_change_of_many_tasks_takes_those_that_come_after_one_another_in_their_order(store: Store) -> None:
    alice = Principal(TENANT, "alice")
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known))
    chain_id, _ = store.chains.add(a_chain("fetch", "load", "report"))
    ids = [record.task.id for _, record, *_ in store.chains.get(TENANT, chain_id).steps]

    def states() -> list[State]:
        return [record.run.state for _, record, *_ in store.chains.get(TENANT, chain_id).steps]

    for order in (ids, ids[::-1]):
        result = scheduler.bulk.change("cancel", order, by=alice)
        assert [each.record.task.id for each in result.outcomes] == order
        assert states() == [State.CANCELLED] * 3
        scheduler.bulk.change("undo", undo=result.undo, by=alice)
        assert states() == [State.SCHEDULED, State.WAITING, State.WAITING]


def test_a_cancel_of_many_reports_the_tasks_that_go_on_by_it(store: Store) -> None:
    freed: list[str] = []
    store.commits.listen(freed.extend)
    alice = Principal(TENANT, "alice")
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known))
    first = store.tasks.add(*a_task(), actor="alice").record.task.id
    task, run = a_task()
    anyway = [Dependency(first, AfterFailure.RUN_ANYWAY)]
    store.tasks.add(task, replace(run, state=State.WAITING, wake_at=None), actor="alice", after=anyway)
    scheduler.bulk.change("cancel", [first], by=alice)
    assert freed == [task.id]


def test_of_a_chain_that_recurs_the_next_generation_comes_with_the_last_end_of_this_one(store: Store) -> None:
    new = a_chain("fetch", "load")
    series = replace(new.chain, repeat="FREQ=DAILY", anchor=NOON, due_at=NOON)
    chain_id, added = store.chains.add(replace(new, chain=series))
    store.claims.settle([settlement(restarted(store, added[0].record))])
    store.claims.settle([settlement(restarted(store, added[1].record))])
    found = store.chains.get(TENANT, chain_id)
    tomorrow = NOON + timedelta(days=1)
    assert (found.chain.due_at, found.chain.number) == (tomorrow, 2)
    assert [(record.run.scheduled_for, record.run.number, record.run.state) for _, record, *_ in found.steps] == [
        (tomorrow, 2, State.SCHEDULED),
        (tomorrow, 2, State.WAITING),
    ]

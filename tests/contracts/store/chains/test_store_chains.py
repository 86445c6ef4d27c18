"""Tasks that come after others: they wait, and go on or end in the transaction in which the last of these ends."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from duetime.scheduler import ids
from duetime.scheduler.chain.dependency import Dependency
from duetime.scheduler.errors import TaskNotFound
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.request import AfterFailure
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.settlement import with_consequences
from duetime.scheduler.rules.states import OPEN
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.chains import dependencies
from duetime.scheduler.store.schema.tables.tasks import runs
from duetime.scheduler.task import DeadlineType, State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import update

from tests.builders import LEASE, NOON, TENANT, Clock, a_task, added, restarted, settlement, with_deadline
from tests.contracts.store.statement_log import statements_of

FAIL, SKIP, ANYWAY = AfterFailure
STARTABLE = (State.SCHEDULED, State.READY)


def after(store: Store, *upstreams: TaskRecord, policy: AfterFailure = FAIL, **values: Any) -> TaskRecord:
    task, run = a_task(**values)
    links = [Dependency(each.task.id, policy) for each in upstreams]
    waiting = replace(run, state=State.WAITING, wake_at=None)
    return store.tasks.add(task, waiting, actor="alice", after=links).record


def state(store: Store, record: TaskRecord) -> State:
    return store.tasks.get(TENANT, record.task.id).run.state


def end(store: Store, record: TaskRecord, to: State = State.SUCCEEDED, **values: Any) -> None:
    claim = restarted(store, record)
    store.claims.settle([settlement(claim, to, **values)])


def change(store: Store, record: TaskRecord, decide: Any, kind: EventKind = EventKind.CANCELLED) -> TaskRecord:
    return store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=decide)


def cancel(store: Store, record: TaskRecord) -> None:
    change(store, record, partial(changes.cancel, now=store.now()))


def run_again(store: Store, record: TaskRecord) -> None:
    change(store, record, partial(changes.run_now, now=store.now()), EventKind.RUN_NOW)


def test_a_run_that_waits_for_nothing_else_goes_on_by_few_statements(store: Store) -> None:
    first = added(store)
    task = after(store, first)
    claim = restarted(store, first)
    with statements_of(store) as statements:
        store.claims.settle([settlement(claim, State.SUCCEEDED)])
    assert state(store, task) is State.SCHEDULED
    on_server = store._database.engine.dialect.name == "postgresql"
    assert len(statements) <= (10 if on_server else 12), "each is a round trip on PostgreSQL"


def test_a_run_waits_and_goes_on_in_the_transaction_that_ends_the_last_upstream(store: Store, clock: Clock) -> None:
    freed: list[str] = []
    store.commits.listen(freed.extend)
    first, second = added(store), added(store, title="Fetch")
    task = after(store, first, second)
    assert task.run.state is State.WAITING
    assert store.claims.next_times().wake_at == NOON, "only of the two"
    end(store, first)
    assert (state(store, task), freed) == (State.WAITING, [])
    clock.forward(seconds=1)
    end(store, second)
    found = store.tasks.get(TENANT, task.task.id).run
    assert (found.state, found.wake_at, freed) == (State.SCHEDULED, clock(), [task.task.id])
    told = store.history.events(TENANT, EventFilter(task_id=task.task.id), limit=1, cursor=None).events[0]
    assert (told.kind, told.reason) == (EventKind.UNBLOCKED, f"{second.task.id} (Fetch) succeeded")
    end(store, task)


def test_its_own_time_is_the_earliest_one_and_a_relative_deadline_counts_from_when_it_is_due(
    store: Store, clock: Clock
) -> None:
    first = added(store)
    later = after(store, first, scheduled_for=NOON + timedelta(hours=1))
    task, run = with_deadline(*a_task(), after=timedelta(minutes=5))
    waiting = replace(run, state=State.WAITING, wake_at=None, drop_at=None)
    dated = store.tasks.add(task, waiting, actor="alice", after=[Dependency(first.task.id)]).record
    clock.forward(minutes=30)
    assert store.claims.expire(limit=9) == []
    end(store, first)
    assert store.tasks.get(TENANT, later.task.id).run.wake_at == NOON + timedelta(hours=1)
    found = store.tasks.get(TENANT, dated.task.id).run
    assert (found.scheduled_for, found.deadline) == (clock(), clock() + timedelta(minutes=5))
    assert found.drop_at is not None


@pytest.mark.parametrize(
    ("to", "policy", "follows"),
    [
        (State.FAILED, FAIL, State.FAILED),
        (State.FAILED, SKIP, State.SKIPPED),
        (State.FAILED, ANYWAY, State.SCHEDULED),
        (State.CANCELLED, FAIL, State.CANCELLED),
    ],
)
def test_a_failure_goes_all_the_way_down_and_a_replay_lets_everything_wait_again(
    store: Store, to: State, policy: AfterFailure, follows: State
) -> None:
    first = added(store)
    second = after(store, first, policy=policy)
    third = after(store, second, policy=policy)
    end(store, first, to)
    assert state(store, second) is follows
    if follows is State.SCHEDULED:
        assert state(store, third) is State.WAITING
        return
    assert state(store, third) is follows
    if to is State.CANCELLED:
        return
    run_again(store, first)
    assert {state(store, second), state(store, third)} == {State.WAITING}
    for each in (first, second, third):
        end(store, each)
        assert state(store, each) is State.SUCCEEDED


def expiry(store: Store, record: TaskRecord, clock: Clock) -> None:
    clock.forward(minutes=5)
    assert [each.task_id for each in store.claims.expire(limit=9)] == [record.task.id]


def crashes(store: Store, record: TaskRecord, clock: Clock) -> None:
    for _ in range(3):
        restarted(store, record)
        clock.forward(seconds=60)
        conclude = partial(with_consequences, now=clock())
        assert store.claims.recover_lapsed(epoch=None, held=(), before=clock(), conclude=conclude)


def stop(store: Store, record: TaskRecord, _clock: Clock) -> None:
    claim = restarted(store, record)
    cancel(store, record)
    found = store.tasks.get(TENANT, record.task.id)
    late = replace(claim, task=found.task, run=found.run)
    store.claims.settle([settlement(late, State.CANCELLED)])


@pytest.mark.parametrize(
    ("ends", "follows"),
    [
        (expiry, State.FAILED),
        (crashes, State.FAILED),
        (stop, State.CANCELLED),
        (lambda store, record, _: cancel(store, record), State.CANCELLED),
    ],
)
def test_every_way_in_which_an_upstream_ends_counts(
    store: Store, clock: Clock, ends: Callable[[Store, TaskRecord, Clock], None], follows: State
) -> None:
    task, run = with_deadline(*a_task(), after=timedelta(minutes=4), deadline_type=DeadlineType.HARD)
    if ends is not expiry:
        task, run = a_task()
    first = store.tasks.add(task, run, actor="alice").record
    freed: list[str] = []
    store.commits.listen(freed.extend)
    waits, anyway = after(store, first), after(store, first, policy=ANYWAY)
    ends(store, first, clock)
    assert (state(store, waits), state(store, anyway)) == (follows, State.SCHEDULED)
    assert freed in ([anyway.task.id], []), "the caller of a change looks anyway"


def test_an_undone_cancel_of_an_upstream_lets_what_came_after_it_wait_again(store: Store) -> None:
    first = added(store)
    second = after(store, first)
    cancel(store, first)
    assert state(store, second) is State.CANCELLED
    undo = partial(changes.undo_cancel, now=store.now(), token=None)
    change(store, first, undo, EventKind.CANCEL_UNDONE)
    assert state(store, second) is State.WAITING
    cancel(store, second)
    assert change(store, second, undo, EventKind.CANCEL_UNDONE).run.state is State.WAITING


def test_a_task_that_has_ended_before_is_not_waited_for(store: Store) -> None:
    first = added(store)
    end(store, first)
    assert after(store, first).run.state is State.SCHEDULED


def test_a_moved_run_waits_on_and_one_that_is_to_run_now_does_not(store: Store) -> None:
    first = added(store)
    second = after(store, first)
    later = NOON + timedelta(hours=1)
    moved = change(store, second, partial(changes.move, to=later, now=store.now()), EventKind.RESCHEDULED)
    assert (moved.run.state, moved.run.scheduled_for) == (State.WAITING, later)
    run_again(store, second)
    assert state(store, second) is State.SCHEDULED
    end(store, first)
    assert state(store, second) is State.READY, "as it was"


def test_unknown_and_foreign_upstreams_are_refused_and_nothing_is_stored(store: Store) -> None:
    theirs = added(store, tenant="globex")
    task, run = a_task()
    for upstream_id in (theirs.task.id, ids.new_task_id()):
        with pytest.raises(TaskNotFound):
            store.tasks.add(task, run, actor="alice", after=[Dependency(upstream_id)])
    with pytest.raises(TaskNotFound):
        store.tasks.get(TENANT, task.id)


def test_results_and_states_of_upstreams_are_read(store: Store) -> None:
    first, second = added(store, title="Fetch"), added(store)
    task = after(store, first, second)
    end(store, first, result={"rows": 3})
    found = store.dependencies.upstreams(TENANT, task.task.id)
    assert {(each.task_id, each.state, each.is_open) for each in found} == {
        (first.task.id, State.SUCCEEDED, False),
        (second.task.id, State.READY, True),
    }
    assert store.dependencies.results(TENANT, task.task.id) == {first.task.id: {"rows": 3}}
    assert store.dependencies.results("globex", task.task.id) == {}


@pytest.mark.damages
def test_a_task_left_waiting_by_an_end_goes_on_at_the_next_repair(store: Store) -> None:
    """Older code knows no dependencies, and so ends a run without a look at them."""
    first = added(store)
    second = after(store, first)
    ended = {"state": State.SUCCEEDED, "ended_at": NOON, "wake_at": None}
    store._database.write(
        lambda connection: connection.execute(update(runs).where(runs.c.task_id == first.task.id).values(ended))
    )
    assert [each.count for each in store.integrity.examine().findings] == [1], "it waits for nothing"
    assert store.dependencies.repair(limit=10) == 1
    assert (state(store, second), store.dependencies.repair(limit=10)) == (State.SCHEDULED, 0)
    third = after(store, second)
    store._database.write(
        lambda connection: connection.execute(update(dependencies).values(closed_at=NOON, outcome=State.SUCCEEDED))
    )
    assert store.dependencies.repair(limit=10) == 1
    assert state(store, third) is State.SCHEDULED


def judged(states: list[tuple[State, AfterFailure]], *, replayed: bool) -> set[State]:
    """Return the states in which a run may be whose upstreams are so: the model."""
    bad = [state for state, policy in states if state not in {*OPEN, State.SUCCEEDED} and policy is not ANYWAY]
    waited = [policy for state, policy in states if state in OPEN]
    if bad:  # of two bad ends, the replay of one lets it wait for that
        return {State.FAILED, State.CANCELLED, State.SKIPPED, *([State.WAITING] if replayed and waited else [])}
    if not waited:
        return {*STARTABLE}
    return {State.WAITING, *(STARTABLE if ANYWAY in waited else ())}  # what went on stays so when that runs again


@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_end_as_the_model_says_and_nothing_is_stuck(store: Store, seed: int) -> None:
    random_ = random.Random(seed)
    graph: list[tuple[TaskRecord, list[tuple[int, AfterFailure]]]] = []
    for number in range(9):
        links = [(each, random_.choice([FAIL, SKIP, ANYWAY])) for each in range(number) if random_.random() < 0.35]
        task, run = a_task()
        waiting = replace(run, state=State.WAITING, wake_at=None) if links else run
        given = [Dependency(graph[each][0].task.id, policy) for each, policy in links]
        graph.append((store.tasks.add(task, waiting, actor="alice", after=given).record, links))
    cancelled, replayed = set[int](), False
    for _ in range(200):
        found = [store.tasks.get(TENANT, record.task.id).run for record, _ in graph]
        states = [run.state for run in found]
        for number, (_, links) in enumerate(graph):
            if links and found[number].started_at is None and number not in cancelled:
                assert states[number] in judged([(states[each], policy) for each, policy in links], replayed=replayed)
        ready = [record for (record, _), each in zip(graph, states, strict=True) if each in STARTABLE]
        failed = [record for (record, _), each in zip(graph, states, strict=True) if each is State.FAILED]
        if not ready:
            assert not [each for each in states if each in OPEN], "stuck"
            return
        waiting_too = [record for (record, _), each in zip(graph, states, strict=True) if each in OPEN]
        choice = random_.random()
        if choice < 0.1:
            chosen = random_.choice(waiting_too)
            cancelled.add([record for record, _ in graph].index(chosen))
            cancel(store, chosen)
        elif choice < 0.2 and failed and store.tasks.get(TENANT, failed[0].task.id).run.started_at:
            replayed = True
            run_again(store, failed[0])
        else:
            end(store, random_.choice(ready), random_.choice([State.SUCCEEDED, State.SUCCEEDED, State.FAILED]))
    raise AssertionError("the walk does not end")


def test_a_claim_before_the_dependant_was_added_still_lets_it_go(store: Store) -> None:
    first = added(store)
    store.claims.make_ready(limit=9)
    [claim] = store.claims.start([Start(first.run.id, token="t")], worker="w1", epoch=None, lease=LEASE)
    second = after(store, first)
    store.claims.settle([settlement(claim)])
    assert state(store, second) is State.SCHEDULED

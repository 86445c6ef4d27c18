"""An action that a worker does not know is left to those that do: no attempt is made, and no time is lost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.dispatch.fast_path import FastPath
from duetime.scheduler.foresight.explain import wait_sentences
from duetime.scheduler.foresight.explainer import Explainer
from duetime.scheduler.handlers import Context, Handler, Handlers, handler
from duetime.scheduler.handlers.reminder import reminder
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.nodes.heartbeat import Heartbeat, any_worker_handles
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue import Entry
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.queue.remote import RemoteQueue, answer
from duetime.scheduler.request import Request
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker.worker import Worker, WorkerOptions
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import LEASE, NOON, TENANT, Clock, added
from tests.flow.waiting import eventually
from tests.flow.worker.test_early_check import Dispatching

MS = NOON.timestamp() * 1000


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/duetime.db" if sqlite else request.getfixturevalue("migrated_postgres_url")
    opened = open_store(url, clock=clock, synchronous="OFF")
    yield opened
    opened.close()


@pytest.fixture
def queue(clock: Clock) -> MemoryQueue:
    return MemoryQueue(lambda: clock().timestamp() * 1000)


def resize() -> Handler:
    @handler("resize")
    def resized(_ctx: Context) -> Done:
        return Done("resized")

    return resized


def ready(store: Store, queue: MemoryQueue, action: str = "resize") -> TaskRecord:
    record = added(store, action=action, payload={})
    store.claims.make_ready(limit=9)
    queue.put([Entry(record.run.id, MS, action=action)])
    return store.tasks.get(TENANT, record.task.id)


def test_a_claim_starts_only_the_actions_that_are_named(store: Store, queue: MemoryQueue) -> None:
    known, unknown = ready(store, queue, "reminder"), ready(store, queue)
    starts = [Start(known.run.id, "t1"), Start(unknown.run.id, "t2")]
    claims = store.claims.start(starts, worker="w", epoch=None, lease=LEASE, actions=["reminder"])
    assert [claim.run.id for claim in claims] == [known.run.id]
    run = store.tasks.get(TENANT, unknown.task.id).run
    assert (run.state, run.attempt) == (State.READY, 0)


def test_a_run_waits_in_the_queue_for_a_worker_that_knows_its_action(store: Store, queue: MemoryQueue) -> None:
    record, known = ready(store, queue), ready(store, queue, "reminder")
    old = Worker(store, queue, Handlers([reminder]), WorkerOptions("old", threads=1))
    new = Worker(store, queue, Handlers([reminder, resize()]), WorkerOptions("new", threads=1))
    old.start()
    eventually(lambda: store.tasks.get(TENANT, known.task.id).run.state is State.SUCCEEDED, "the reminder to be run")
    found = queue.explain(record.run.id)
    assert found is not None
    assert found.status == "waiting", "it is not set aside"
    new.start()
    eventually(lambda: store.tasks.get(TENANT, record.task.id).run.state is State.SUCCEEDED, "the new worker to run it")
    assert store.tasks.get(TENANT, record.task.id).run.attempt == 1
    for worker in (old, new):
        worker.stop(timedelta(0))


def test_other_runs_of_the_same_take_start(store: Store, queue: MemoryQueue) -> None:
    unknown, known = ready(store, queue), ready(store, queue, "reminder")
    worker = Worker(store, queue, Handlers([reminder]), WorkerOptions("w", threads=2))
    worker.start()
    eventually(lambda: store.tasks.get(TENANT, known.task.id).run.state is State.SUCCEEDED, "the reminder to be run")
    assert store.tasks.get(TENANT, unknown.task.id).run.state is State.READY
    worker.stop(timedelta(0))


def test_explain_says_that_no_worker_that_is_up_knows_the_action(store: Store, queue: MemoryQueue) -> None:
    record = ready(store, queue)

    def said() -> str:
        remote_queue = RemoteQueue(lambda question: answer(queue, question))
        explainer = Explainer(store, remote_queue, dict, known=lambda action: any_worker_handles(store, action))
        return " ".join(wait_sentences(record, NOON, explainer.facts(record)))

    Heartbeat(store, "w1", threads=lambda: 1, running=lambda: 0, actions=["reminder"]).step()
    assert said().startswith("a worker with a handler for 'resize': no running worker has one")
    Heartbeat(store, "w2", threads=lambda: 1, running=lambda: 0, actions=["reminder", "resize"]).step()
    assert "with a handler for" not in said()


@pytest.mark.parametrize("fast", [False, True])
def test_a_task_that_is_scheduled_for_now_says_that_no_worker_knows_its_action(
    store: Store, queue: MemoryQueue, *, fast: bool
) -> None:
    known = partial(any_worker_handles, store)
    explainer = Explainer(store, RemoteQueue(lambda question: answer(queue, question)), dict, known=known)
    planner = Planner(Handlers.load(entry_points=False, added=[resize()]), "UTC")
    path = FastPath(Dispatching(), lambda _ids: None) if fast else None
    scheduler = Scheduler(store, planner, explainer=explainer, fast_path=path)
    Heartbeat(store, "w1", threads=lambda: 1, running=lambda: 0, actions=["reminder"]).step()
    view = scheduler.schedule("Shrink", when="now", action="resize")
    [said] = view.waiting_for
    assert said.startswith("a worker with a handler for 'resize': no running worker has one, so start one whose")
    assert said in task_text(task_payload(view))
    assert scheduler.schedule("Shrink", when="in 2 hours", action="resize").waiting_for == ()
    assert scheduler.schedule("Stretch", when="now").waiting_for == ()


def test_several_tasks_and_chains_that_are_due_now_say_that_no_worker_knows_their_actions(
    store: Store, queue: MemoryQueue
) -> None:
    known = partial(any_worker_handles, store)
    explainer = Explainer(store, RemoteQueue(lambda question: answer(queue, question)), dict, known=known)
    planner = Planner(Handlers.load(entry_points=False, added=[resize()]), "UTC")
    scheduler = Scheduler(store, planner, explainer=explainer)
    Heartbeat(store, "w1", threads=lambda: 1, running=lambda: 0, actions=["reminder"]).step()
    said = "a worker with a handler for 'resize': no running worker has one, so start one whose setting `handlers` "
    said += "names its module"
    due, later, other = (
        Request("Shrink", when="now", action="resize"),
        Request("Shrink later", when="in 2 hours", action="resize"),
        Request("Stretch", when="now"),
    )
    assert [view.waiting_for for view in scheduler.task_creator.create_many([due, later, other])] == [(said,), (), ()]

    steps: Any = [
        {"name": "a", "action": "resize"},
        {"name": "b", "action": "resize"},
        {"name": "c", "after": ["a", "b"]},
    ]
    assert scheduler.schedule("Shrink both", when="now", steps=steps).waiting_for == (said,)
    assert scheduler.schedule("Shrink both later", when="in 2 hours", steps=steps).waiting_for == ()
    last: Any = [{"name": "a"}, {"name": "b", "after": ["a"], "action": "resize"}]
    assert scheduler.schedule("Stretch first", when="now", steps=last).waiting_for == ()


def test_a_call_for_a_chain_that_is_repeated_after_its_time_says_as_the_first_one_that_no_worker_runs(
    store: Store, queue: MemoryQueue, clock: Clock
) -> None:
    explainer = Explainer(store, RemoteQueue(lambda question: answer(queue, question)), dict, working=lambda: False)
    scheduler = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"), explainer=explainer)
    steps: Any = [{"name": "a"}, {"name": "b", "after": ["a"]}]
    [said] = scheduler.schedule("Stretch", when="now", steps=steps).waiting_for
    given: Any = {"when": f"{clock() + timedelta(hours=1):%Y-%m-%d %H:%M}", "steps": steps, "idempotency_key": "rent"}
    assert scheduler.schedule("Rent", **given).waiting_for == ()
    clock.forward(hours=2)
    again = scheduler.schedule("Rent", **given)
    assert (again.created, again.waiting_for) == (False, (said,))


@pytest.mark.parametrize("when", [{"when": "in 2 hours"}, {"repeat": "every day at 9:00"}])
def test_a_task_that_is_run_now_says_that_no_worker_knows_its_action_and_what_to_do(
    store: Store, queue: MemoryQueue, clock: Clock, when: dict[str, Any]
) -> None:
    known = partial(any_worker_handles, store)
    explainer = Explainer(store, RemoteQueue(lambda question: answer(queue, question)), dict, known=known)
    planner = Planner(Handlers.load(entry_points=False, added=[resize()]), "UTC")
    scheduler = Scheduler(store, planner, explainer=explainer)
    Heartbeat(store, "w1", threads=lambda: 1, running=lambda: 0, actions=["reminder"]).step()
    task_id = scheduler.schedule("Shrink", action="resize", **when).record.task.id
    assert scheduler.get(task_id).waiting_for == ()

    lacking = "a worker with a handler for 'resize': no running worker has one, so start one whose setting "
    said = (f"{lacking}`handlers` names its module",)
    assert scheduler.act(task_id, "run_now").waiting_for == said
    assert scheduler.get(task_id).waiting_for == scheduler.explain(task_id)[1] == said
    clock.forward(seconds=1)
    assert scheduler.get(task_id).waiting_for == scheduler.explain(task_id)[1] == said

    Heartbeat(store, "w2", threads=lambda: 1, running=lambda: 0, actions=["reminder", "resize"]).step()
    assert lacking not in " ".join(scheduler.explain(task_id)[1])

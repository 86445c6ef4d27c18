"""A task that is due when it is scheduled goes straight into the queue of a process that dispatches."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.dispatch.dispatcher import READY_AHEAD, WAKE_HORIZON, Dispatcher
from duetime.scheduler.dispatch.fast_path import FastPath
from duetime.scheduler.dispatch.rebuild import refill
from duetime.scheduler.events import EventFilter, EventKind
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.run_records import NextTimes, ReadyRun
from duetime.scheduler.service.change_notices import ChangeNotices
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State, Tier
from duetime.scheduler.views import TaskFilter, TaskView
from duetime.server.app import build
from duetime.server.settings.model import Settings

from tests.builders import NOON, Clock, a_task, with_deadline
from tests.flow.waiting import eventually


class ADesk:
    """Dispatches, or does not, and remembers what it was given."""

    def __init__(self, *, dispatches: bool = True) -> None:
        self.dispatches = dispatches
        self.placed: list[ReadyRun] = []

    def place(self, run: ReadyRun) -> None:
        self.placed.append(run)


class Desks:
    """A scheduling service at a desk; `told` and `changed` are the tasks that listeners and dispatchers heard of."""

    def __init__(self, store: Store, target: ADesk) -> None:
        self.store, self.target = store, target
        self.told: list[str] = []
        self.changed: list[str] = []
        fast_path = FastPath(target, self.told.extend)
        planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
        self.scheduler = Scheduler(
            store, planner, notices=ChangeNotices(on_change=self.changed.extend), fast_path=fast_path
        )

    def schedule(self, when: str) -> TaskView:
        return self.scheduler.schedule("Stretch", when=when)


@pytest.fixture
def desks(store: Store) -> Desks:
    return Desks(store, ADesk())


def kinds(store: Store, task_id: str) -> list[EventKind]:
    page = store.history.events("local", EventFilter(task_id=task_id), limit=9)
    return [event.kind for event in reversed(page.events)]


def test_a_run_due_now_is_stored_as_ready_and_placed_without_a_look_for_it(desks: Desks) -> None:
    record = desks.schedule("now").record
    assert (record.run.state, record.run.wake_at, record.run.first_ready_at) == (State.READY, None, NOON)
    assert kinds(desks.store, record.task.id) == [EventKind.CREATED, EventKind.READY]
    assert (desks.told, desks.changed) == ([record.task.id], [])
    [placed] = desks.target.placed
    assert [placed] == desks.store.claims.ready(limit=9)


def test_a_run_due_later_is_left_to_the_dispatchers(desks: Desks) -> None:
    record = desks.schedule("in 5 seconds").record
    assert record.run.state is State.SCHEDULED
    assert kinds(desks.store, record.task.id) == [EventKind.CREATED]
    assert (desks.told, desks.changed, desks.target.placed) == ([], [record.task.id], [])


def test_a_run_due_much_later_wakes_no_dispatcher_which_looks_in_time_anyway(desks: Desks) -> None:
    waits = desks.schedule("in 6 seconds").record
    assert (desks.told, desks.changed, desks.target.placed) == ([waits.task.id], [], [])


def test_a_run_whose_timer_fires_soon_wakes_the_dispatchers_however_late_it_is_due(desks: Desks) -> None:
    record = desks.scheduler.schedule("Stretch", when="in 10 minutes", deadline="5 min", estimate="15 min").record
    assert record.run.drop_at is not None
    assert record.run.drop_at < NOON + WAKE_HORIZON
    assert desks.changed == [record.task.id]


def test_a_run_that_waits_for_another_task_wakes_no_dispatcher_unless_it_also_waits_for_a_time(desks: Desks) -> None:
    first = desks.schedule("in 2 hours").record.task.id
    schedule = desks.scheduler.schedule
    waits = schedule("Behind", after=[first]).record.task.id
    assert (desks.told, desks.changed) == ([first, waits], [])
    timed = [
        schedule("Event", after=[first], wait_for={"event": "paid", "timeout": "1 s"}),
        schedule("Approval", after=[first], approval={"question": "Go?", "by": "10 minutes"}),
        schedule("Deadline", after=[first], deadline="in 10 minutes", deadline_type="hard", estimate="9 min 59 s"),
    ]
    assert desks.changed == [view.record.task.id for view in timed]


def test_a_process_that_does_not_dispatch_leaves_everything_to_those_that_do(store: Store) -> None:
    desks = Desks(store, ADesk(dispatches=False))
    record = desks.schedule("now").record
    assert record.run.state is State.SCHEDULED
    assert (desks.changed, desks.target.placed) == ([record.task.id], [])


def test_a_repeated_call_places_nothing_again(desks: Desks) -> None:
    first, second = (desks.scheduler.schedule("Stretch", when="now", idempotency_key="k") for _ in range(2))
    assert (first.created, second.created) == (True, False)
    assert len(desks.target.placed) == 1
    assert desks.told == [first.record.task.id]


def test_a_run_that_is_due_in_a_moment_is_placed_with_its_time(store: Store, clock: Clock) -> None:
    target = ADesk()
    fast_path = FastPath(target, lambda _: None)
    task, run = a_task(NOON + READY_AHEAD)
    forward = fast_path.forward(run, NOON)
    assert (forward.state, forward.first_ready_at) == (State.READY, NOON + READY_AHEAD)
    assert fast_path.forward(run, NOON - timedelta(milliseconds=1)) is run
    added = store.tasks.add(task, forward, actor="alice")
    fast_path.put(added.record)
    queue = MemoryQueue(lambda: clock().timestamp() * 1000)
    dispatcher = Dispatcher(store, queue)
    dispatcher.place(*target.placed)
    dispatcher.step()
    assert not queue.take("w", 9, 1e6).grants
    clock.forward(seconds=READY_AHEAD.total_seconds())
    assert queue.take("w", 9, 1e6).run_ids == (run.id,)


def test_it_is_placed_as_it_would_be_by_a_look_for_it(store: Store) -> None:
    target = ADesk()
    task, run = with_deadline(
        *a_task(priority=Tier.HIGH, needs={"gpu": 2}, estimate=timedelta(seconds=9)), after=READY_AHEAD
    )
    fast_path = FastPath(target, lambda _: None)
    fast_path.put(store.tasks.add(task, fast_path.forward(run, NOON), actor="alice").record)
    assert target.placed == store.claims.ready(limit=9)


def test_a_run_that_was_not_placed_after_all_is_found(desks: Desks) -> None:
    run = desks.schedule("now").record.run
    queue = MemoryQueue(lambda: NOON.timestamp() * 1000)
    assert refill(desks.store, queue).added == 1
    assert queue.take("w", 9, 1e6).run_ids == (run.id,)


def test_the_runner_starts_it_and_a_process_that_is_not_the_runner_leaves_it_to_the_runner(tmp_path: Path) -> None:
    settings = Settings.model_validate(
        {
            "database_url": f"sqlite:///{tmp_path / 'duetime.db'}",
            "timezone": "UTC",
            "desktop_notifications": "off",
        }
    )
    with build(settings) as first, build(settings) as second:
        assert second.scheduler.schedule("Stretch", when="now").record.run.state is State.SCHEDULED
        first.start()
        eventually(lambda: first.runner.dispatches, "a runner")
        here = first.scheduler.schedule("Look", when="now").record
        assert here.run.state is State.READY
        there = second.scheduler.schedule("Listen", when="now").record
        assert there.run.state is State.SCHEDULED
        ended = TaskFilter(states=(State.SUCCEEDED,))
        eventually(lambda: len(first.scheduler.tasks.list(ended).views) == 3, "three runs to succeed")


def test_placing_does_not_look_for_what_is_due_before_its_time(
    store: Store, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds, looks, real = [0.0], [0], store.claims.next_times
    queue = MemoryQueue(lambda: clock().timestamp() * 1000)
    dispatcher = Dispatcher(store, queue, clock=lambda: seconds[0])

    def counted() -> NextTimes:
        looks[0] += 1
        return real()

    def placed(due_in: timedelta | None = None) -> float:
        task, run = with_deadline(*a_task(), after=due_in) if due_in else a_task()
        target = ADesk()
        fast_path = FastPath(target, lambda _: None)
        fast_path.put(store.tasks.add(task, fast_path.forward(run, NOON), actor="alice").record)
        dispatcher.place(*target.placed)
        sleep = dispatcher.step()
        assert queue.explain(run.id) is not None
        return sleep

    monkeypatch.setattr(store.claims, "next_times", counted)
    assert (dispatcher.step(), looks[0]) == (2.0, 1)
    seconds[0] = 0.5
    assert (placed(), looks[0]) == (1.5, 1)
    dispatcher.wake()
    assert (placed(), looks[0]) == (2.0, 2)
    assert (placed(due_in=timedelta(seconds=3)), looks[0]) == (1.0, 3)
    seconds[0] = 2.5
    assert (placed(), looks[0]) == (1.0, 4)

"""A run that is changed while it waits gets its place by what it is now, not by what it was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.dispatch.placement import Placement
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.queue import Entry, Explanation, QueueUnavailable
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.estimates import Estimate
from duetime.scheduler.rules.limits.admission import Kind, Limits
from duetime.scheduler.rules.limits.pool import Pool
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskView

from tests.builders import Clock

POOLS = {"gpu": Pool("gpu", capacity=2), "tpu": Pool("tpu", capacity=2)}


@pytest.fixture
def queue(clock: Clock) -> MemoryQueue:
    made = MemoryQueue(lambda: clock().timestamp() * 1000)
    made.set_pool("gpu", Limits(Kind.SLOTS, 0))
    made.set_pool("tpu", Limits(Kind.SLOTS, 2))
    return made


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", pools=lambda: POOLS))


@pytest.fixture
def dispatcher(store: Store, queue: MemoryQueue) -> Dispatcher:
    return Dispatcher(store, queue, placement=Placement(lambda: POOLS))


def parked(scheduler: Scheduler, dispatcher: Dispatcher, queue: MemoryQueue, clock: Clock) -> TaskView:
    """Schedule a task that waits for the gpu."""
    made = scheduler.schedule("Render", when="in 1 min", needs={"gpu": 1})
    clock.forward(minutes=1)
    dispatcher.step()
    assert queue.take("w", 1, 1e6).run_ids == ()
    return made


def test_a_run_that_is_parked_on_one_pool_starts_with_another_when_its_needs_change(
    scheduler: Scheduler, dispatcher: Dispatcher, queue: MemoryQueue, clock: Clock
) -> None:
    made = parked(scheduler, dispatcher, queue, clock)
    scheduler.reschedule(made.record.task.id, needs={"tpu": 2}, priority="critical")
    dispatcher.step()

    (grant,) = queue.take("w", 1, 1e6).grants
    assert (grant.run_id, grant.needs) == (made.record.run.id, {"tpu": 2})


def test_a_run_that_was_put_off_while_it_was_parked_is_not_there_twice(
    scheduler: Scheduler, dispatcher: Dispatcher, queue: MemoryQueue, clock: Clock
) -> None:
    made = parked(scheduler, dispatcher, queue, clock)
    scheduler.reschedule(made.record.task.id, when=timedelta(minutes=5), needs={"tpu": 1})
    clock.forward(minutes=5)
    dispatcher.step()

    assert queue.take("w", 9, 1e6).run_ids == (made.record.run.id,)
    queue.set_pool("gpu", Limits(Kind.SLOTS, 2))
    assert queue.take("w", 9, 1e6).run_ids == ()


def test_a_run_that_was_scheduled_before_its_length_was_learned_expires_by_what_is_known_when_it_is_due(
    store: Store, queue: MemoryQueue, scheduler: Scheduler, clock: Clock
) -> None:
    made = scheduler.schedule("Call John", when="in 1 hour", deadline="10 min", deadline_type="hard")
    learned = Estimate(p50=timedelta(minutes=4), p90=timedelta(minutes=9))
    dispatcher = Dispatcher(store, queue, placement=Placement(estimates=lambda *_: learned))
    clock.forward(hours=1)
    dispatcher.step()
    assert scheduler.get(made.record.task.id).record.run.drop_at == clock() + timedelta(minutes=6)

    clock.forward(minutes=6)
    dispatcher.step()
    run = scheduler.get(made.record.task.id).record.run
    assert run.state is State.EXPIRED
    assert run.error is not None
    assert run.error.endswith("it needs about 4 min; it waited for a free worker thread")


def test_a_run_that_expires_behind_a_pool_says_what_it_lacked(
    store: Store, queue: MemoryQueue, scheduler: Scheduler, clock: Clock, dispatcher: Dispatcher
) -> None:
    made = [
        scheduler.schedule(
            title, when="in 1 min", deadline="17 s", deadline_type="hard", estimate="2 s", needs={"tpu": 2}
        )
        for title in ("Render the film", "Render the trailer")
    ]
    clock.forward(minutes=1)
    dispatcher.step()
    (started,) = queue.take("w", 9, 1e6).run_ids
    store.claims.start([Start(started)], worker="w", epoch=None, lease=timedelta(minutes=1))
    (left,) = (view.record for view in made if view.record.run.id != started)
    clock.forward(seconds=16)
    dispatcher.step()
    run = scheduler.get(left.task.id).record.run
    assert run.state is State.EXPIRED
    assert run.error == (
        "its deadline of Tue 24 Nov 2026 12:01:17 could no longer be met: it needs about 2 s; "
        "it waited for pool tpu: it needs 2, 0 of 2 are free; held by 1 run"
    )


def test_a_run_that_expires_while_the_queue_is_away_expires_without_it(
    store: Store, queue: MemoryQueue, scheduler: Scheduler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    dispatcher = Dispatcher(store, queue, placement=Placement(lambda: POOLS))

    def explain(_: str) -> Explanation:
        raise QueueUnavailable("away")

    monkeypatch.setattr(queue, "explain", explain)
    made = scheduler.schedule("Render", when="in 1 min", deadline="17 s", deadline_type="hard", needs={"gpu": 1})
    clock.forward(minutes=1)
    dispatcher.step()
    clock.forward(seconds=17)
    dispatcher.step()
    assert scheduler.get(made.record.task.id).record.run.state is State.EXPIRED
    assert [message.state for message in store.inbox.unread("local", "local")] == [State.EXPIRED]


def test_the_callers_estimate_stays(store: Store, queue: MemoryQueue, scheduler: Scheduler, clock: Clock) -> None:
    made = scheduler.schedule("Call John", when="in 1 min", deadline="10 min", estimate="20 s")
    learned = Estimate(p50=timedelta(minutes=4), p90=timedelta(minutes=9))
    clock.forward(minutes=1)
    Dispatcher(store, queue, placement=Placement(estimates=lambda *_: learned)).step()

    assert scheduler.get(made.record.task.id).record.run.drop_at == made.record.run.drop_at


def test_a_backlog_of_one_tenant_delays_the_task_of_another_by_one_run(
    store: Store, queue: MemoryQueue, clock: Clock, scheduler: Scheduler, dispatcher: Dispatcher
) -> None:
    for number in range(20):
        scheduler.schedule(f"Import {number}", when="in 1 min")
    other = scheduler.schedule("Call John", when="in 2 min", by=Principal("globex", "ann"))
    clock.forward(minutes=1)
    dispatcher.step()
    assert len(queue.take("w", 3, 1e6).grants) == 3
    clock.forward(minutes=1)
    dispatcher.step()
    assert other.record.run.id in queue.take("w", 2, 1e6).run_ids


def test_a_run_goes_by_its_deadline_where_that_comes_before_its_patience_ends(
    scheduler: Scheduler, dispatcher: Dispatcher, queue: MemoryQueue, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries: list[Entry] = []

    def noted(given: Sequence[Entry]) -> int:
        entries.extend(given)
        return len(given)

    monkeypatch.setattr(queue, "put", noted)
    for deadline in ("2 min", "1 hour", None):
        scheduler.schedule(f"Call {deadline}", when="in 1 min", deadline=deadline)
    clock.forward(minutes=1)
    dispatcher.step()
    assert [entry.by_deadline for entry in entries] == [True, False, False]
    assert {entry.tenant for entry in entries} == {"local"}

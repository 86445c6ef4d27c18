"""Paused tasks cost the timers nothing, however many are overdue, and nothing of them is forgotten."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from sqlalchemy import text

from tests.builders import NOON, TENANT, Clock, a_run, added, settlement, started, with_deadline
from tests.builders import a_task as made

HOUR = timedelta(hours=1)
IN_THE_TIMERS = {
    "wake": "SELECT count(*) FROM runs WHERE wake_at IS NOT NULL AND NOT paused",
    "drop": "SELECT count(*) FROM runs WHERE drop_at IS NOT NULL AND ended_at IS NULL AND NOT paused",
}
"""The rows of the indexes that the timers read."""


def in_the_timers(store: Store, timer: str = "wake") -> int:
    return store._database.read(lambda connection: int(connection.execute(text(IN_THE_TIMERS[timer])).scalar_one()))


def pause(store: Store, record: TaskRecord, *, paused: bool = True) -> TaskRecord:
    def decide(it: TaskRecord) -> Change:
        return Change(replace(it.task, paused=paused), it.run)

    kind = EventKind.PAUSED if paused else EventKind.RESUMED
    return store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=decide)


def test_the_timers_do_not_meet_runs_of_paused_tasks(store: Store, clock: Clock) -> None:
    paused = [pause(store, added(store)) for _ in range(3)]
    going = added(store, NOON + HOUR)
    clock.forward(minutes=10)
    assert in_the_timers(store) == 1
    assert store.claims.next_times().first() == NOON + HOUR
    pause(store, paused[0], paused=False)
    assert store.claims.next_times().first() == NOON
    clock.forward(hours=2)
    assert {run.run_id for run in store.claims.make_ready(limit=9)} == {paused[0].run.id, going.run.id}


def test_the_timer_of_deadlines_does_not_either(store: Store, clock: Clock) -> None:
    task, run = with_deadline(*made(), after=HOUR)
    record = store.tasks.add(task, run, actor="alice").record
    pause(store, record)
    clock.forward(hours=2)
    assert in_the_timers(store, "drop") == 0
    assert store.claims.expire(limit=9) == []
    pause(store, record, paused=False)
    assert [expired.run_id for expired in store.claims.expire(limit=9)] == [run.id]


def test_a_run_that_a_paused_task_gets_later_leaves_the_timers_when_it_is_overdue(store: Store, clock: Clock) -> None:
    claim = started(store, repeat="FREQ=HOURLY")
    record = store.tasks.get(TENANT, claim.task.id)
    task = pause(store, record).task
    following = a_run(task, NOON + HOUR, number=2)
    store.claims.settle([replace(settlement(claim, next_run=following), task_revision=task.revision)])
    assert store.tasks.get(TENANT, task.id).run.state is State.SCHEDULED
    assert (in_the_timers(store), store.claims.note_paused(limit=9)) == (1, 0)
    clock.forward(hours=2)
    assert (store.claims.note_paused(limit=9), in_the_timers(store)) == (1, 0)
    assert store.claims.note_paused(limit=9) == 0
    pause(store, record, paused=False)
    assert [run.run_id for run in store.claims.make_ready(limit=9)] == [following.id]


def test_only_runs_of_paused_tasks_are_noted(store: Store, clock: Clock) -> None:
    record = added(store)
    clock.forward(hours=1)
    assert store.claims.note_paused(limit=9) == 0
    assert [run.run_id for run in store.claims.make_ready(limit=9)] == [record.run.id]

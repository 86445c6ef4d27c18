"""Timers: a row that one cannot read or write holds up no other, of whichever tenant, and is said once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import LOCAL
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.statements import event_log
from duetime.scheduler.task import State

from tests.builders import Clock, a_task, with_deadline
from tests.contracts.store.damages import damage
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

HOUR = timedelta(hours=1)
NOON_OF_DESK = at(12)

UNREADABLE = [{"timezone": "'Mars/Phobos'"}, {"repeat": "'every blue moon'"}]


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC")), store, clock)


def dispatched(desk: Desk, hour: int) -> None:
    desk.clock.at = at(hour)
    dispatcher = Dispatcher(desk.store, MemoryQueue(lambda: desk.clock().timestamp() * 1000))
    for _ in range(3):
        dispatcher.step()


def state_of(desk: Desk, task_id: str) -> State:
    return desk.scheduler.get(task_id).record.run.state


@pytest.mark.damages
@pytest.mark.parametrize("values", UNREADABLE, ids=str)
def test_a_series_that_nothing_can_overtake_keeps_no_other_task_from_its_time(
    url: str, desk: Desk, values: Mapping[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    series = desk.hourly(overlap="allow_all")
    other = desk.scheduler.schedule("Other", when="in 3 hours").record.task.id
    assert desk.start(9)
    for column, value in values.items():
        damage(url, "tasks", column, value, id=series)
    dispatched(desk, 12)
    assert (state_of(desk, series), state_of(desk, other)) == (State.RUNNING, State.READY)
    assert caplog.text.count("the next occurrence cannot overtake it") == 1


@pytest.mark.damages
@pytest.mark.parametrize("values", UNREADABLE, ids=str)
def test_a_missed_run_for_which_nothing_else_can_be_found_runs_itself(
    url: str, desk: Desk, values: Mapping[str, str]
) -> None:
    series = desk.hourly(coalesce="latest")
    other = desk.scheduler.schedule("Other", when="in 3 hours").record.task.id
    for column, value in values.items():
        damage(url, "tasks", column, value, id=series)
    dispatched(desk, 12)
    assert (state_of(desk, series), state_of(desk, other)) == (State.READY, State.READY)


@pytest.fixture
def spoil(url: str, store: Store) -> Iterator[Callable[[str], None]]:
    """Let the database refuse every change of a task and of its runs, until the end of the test."""
    sqlite = url.startswith("sqlite")
    found: list[tuple[str, str]] = []

    def refuse(task_id: str) -> None:
        for table, column in (("tasks", "id"), ("runs", "task_id")):
            when = f"BEFORE UPDATE ON {table} FOR EACH ROW WHEN (OLD.{column} = '{task_id}')"
            act = "BEGIN SELECT RAISE(ABORT, 'spoilt'); END" if sqlite else "EXECUTE FUNCTION refuse_change()"
            execute(store, f"CREATE TRIGGER spoilt_{table} {when} {act}")
            found.append((table, f"spoilt_{table}"))

    if not sqlite:
        body = "BEGIN RAISE EXCEPTION 'spoilt' USING ERRCODE = 'check_violation'; END"
        execute(store, f"CREATE OR REPLACE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$ {body} $$")
    yield refuse
    for table, name in found:
        execute(store, f"DROP TRIGGER {name}" + ("" if sqlite else f" ON {table}"))
    if not sqlite:
        execute(store, "DROP FUNCTION refuse_change()")


def execute(store: Store, statement: str) -> None:
    store._database.write(lambda connection: connection.exec_driver_sql(statement))


class Timer(NamedTuple):
    """A timer: how a task for it is made, how it fires at noon, and the state of the run then."""

    make: Callable[[Desk], str]
    fire: Callable[[Desk], object]
    moved_to: State


def paused(desk: Desk) -> str:
    task_id = desk.scheduler.schedule("Call", when="15:00").record.task.id
    return desk.scheduler.reschedule(task_id, pause=True, pause_until="11:00").record.task.id


def with_hard_deadline(desk: Desk) -> str:
    task, run = with_deadline(*a_task(at(9), tenant=LOCAL.tenant), after=HOUR)
    return desk.store.tasks.add(task, run, actor="alice").record.task.id


def overtakable(desk: Desk) -> str:
    task_id = desk.hourly(overlap="cancel_other")
    desk.store.claims.make_ready(limit=9, ahead=2 * HOUR)
    return task_id


def after_an_event(desk: Desk) -> str:
    wait = {"event": "paid", "timeout": "1 hour"}
    return desk.scheduler.schedule("Ship", wait_for=wait).record.task.id


def waits_each_time(desk: Desk) -> str:
    wait = {"event": "paid", "timeout": "5 hours"}
    return desk.scheduler.schedule("Ship", repeat="every hour at :00", wait_for=wait).record.task.id


TIMERS = {
    "pauses": Timer(paused, lambda desk: desk.store.series.end_pauses(limit=9), State.SCHEDULED),
    "deadlines": Timer(with_hard_deadline, Desk.expire, State.EXPIRED),
    "waits": Timer(after_an_event, lambda desk: desk.store.signals.end_late(limit=9), State.EXPIRED),
    "series": Timer(overtakable, lambda desk: desk.store.series.overtake(limit=9), State.SCHEDULED),
    "due runs": Timer(Desk.hourly, lambda desk: desk.store.claims.make_ready(limit=9), State.READY),
    "due waits": Timer(waits_each_time, lambda desk: desk.store.claims.make_ready(limit=9), State.WAITING),
}


@on_each_database
@pytest.mark.parametrize("name", TIMERS)
def test_a_row_that_a_timer_cannot_write_holds_up_no_other_and_is_left_alone_for_a_while(
    desk: Desk, spoil: Callable[[str], None], name: str, caplog: pytest.LogCaptureFixture
) -> None:
    timer = TIMERS[name]
    bad, good = timer.make(desk), timer.make(desk)
    spoil(bad)
    before = state_of(desk, bad)
    desk.clock.at = NOON_OF_DESK
    for _ in range(2):
        timer.fire(desk)
    view = desk.scheduler.get(good).record
    assert (view.run.state, view.task.paused) == (timer.moved_to, False)
    assert state_of(desk, bad) is before
    lines = [record.message for record in caplog.records if record.exc_info]
    assert (len(lines), desk.store.unwritable_rows()) == (1, 1), lines
    first = desk.store.claims.next_times().first()
    assert first is None or first >= desk.clock(), "the timer does not come back for it at once"


@on_each_database
def test_an_outage_during_a_timer_is_no_fault_of_a_row(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    overtakable(desk)
    desk.clock.at = NOON_OF_DESK

    def away(*_given: Any, **_how: Any) -> None:
        raise StoreUnavailable("the database is away")

    monkeypatch.setattr(event_log, "append", away)
    with pytest.raises(StoreUnavailable, match="is away"):
        desk.store.series.overtake(limit=9)
    assert desk.store.unwritable_rows() == 0

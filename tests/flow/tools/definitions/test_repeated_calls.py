"""A call that is made twice, because its answer was lost, has the effect of one; on each database."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.errors import IdempotencyConflict, InvalidArgument, Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.principal import Principal
from duetime.scheduler.request import Request
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start, Verdict
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskView

from tests.builders import Clock

IN_A_MINUTE = "2026-11-24 12:01"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/duetime.db" if sqlite else request.getfixturevalue("migrated_postgres_url")
    opened = open_store(url, clock=clock, synchronous="OFF")
    yield opened
    opened.close()


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC"))


def two_requests() -> list[Request]:
    return [
        Request("Call John", when=IN_A_MINUTE, idempotency_key="john"),
        Request("Call Jane", when="tomorrow 9am", idempotency_key="jane"),
    ]


def test_many_are_scheduled_once_also_when_the_time_of_one_has_passed(scheduler: Scheduler, clock: Clock) -> None:
    first = scheduler.task_creator.create_many(two_requests())
    clock.forward(minutes=2)
    again = scheduler.task_creator.create_many(two_requests())

    assert [view.record.task.id for view in again] == [view.record.task.id for view in first]
    assert [view.created for view in again] == [False, False]
    assert all("repeats an earlier call" in view.warnings[0] for view in again)
    assert len(scheduler.tasks.list().views) == 2


def test_a_repeat_of_many_that_was_extended_stores_what_is_new(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.task_creator.create_many(two_requests())
    clock.forward(minutes=2)
    again = scheduler.task_creator.create_many([*two_requests(), Request("Call Joe", when="in 1 hour")])
    assert [view.created for view in again] == [False, False, True]
    assert len(scheduler.tasks.list().views) == 3


def test_a_key_of_two_of_many_is_refused_by_its_place_unless_they_are_the_same(scheduler: Scheduler) -> None:
    first = Request("One", when="tomorrow", idempotency_key="k")
    same, other = replace(first), replace(first, title="Two")
    with pytest.raises(InvalidArgument) as refused:
        scheduler.task_creator.create_many([Request("Zero", when="tomorrow"), first, same, other])
    assert str(refused.value) == (
        "requests[3].idempotency_key: 'k' is that of requests[1] too, with other content (title). "
        "Accepted: a key of its own for each task. Example: idempotency_key='k-2'"
    )
    assert scheduler.tasks.list().views == ()
    made = scheduler.task_creator.create_many([first, same])
    assert [view.record.task.id for view in made] == [made[0].record.task.id] * 2


def test_a_length_of_time_is_kept_in_words_and_a_negative_one_is_refused(scheduler: Scheduler) -> None:
    view = scheduler.schedule("Call", when=timedelta(hours=2, minutes=30))
    assert view.record.task.when == "in 2 h 30 min"
    moved = scheduler.reschedule(view.record.task.id, when=timedelta(days=3))
    assert moved.record.task.when == "in 3 d"
    said = "when: a timedelta of -1 s is in the past. Accepted: a timedelta from 0. Example: when='in 2 hours'"
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        scheduler.schedule("Late", when=timedelta(seconds=-1))
    with pytest.raises(InvalidArgument, match=re.escape(said)):
        scheduler.reschedule(view.record.task.id, when=timedelta(seconds=-1))


def test_one_of_many_that_is_past_and_new_refuses_them_all(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.task_creator.create_many(two_requests())
    clock.forward(minutes=2)
    with pytest.raises(InvalidArgument, match="in the past"):
        scheduler.task_creator.create_many(
            [*two_requests(), Request("Call Joe", when=IN_A_MINUTE, idempotency_key="joe")]
        )
    with pytest.raises(IdempotencyConflict, match="title was 'Call John', now '"):
        scheduler.task_creator.create_many([Request("Call Jack", when=IN_A_MINUTE, idempotency_key="john")])
    assert len(scheduler.tasks.list().views) == 2


def daily(scheduler: Scheduler) -> str:
    return scheduler.schedule("Stand-up", repeat="every day at 15:00").record.task.id


def ask(scheduler: Scheduler, task_id: str, **arguments: object) -> TaskView:
    """Press a button as an agent does: with its raw arguments."""
    given: Any = arguments
    return scheduler.act(task_id, **given, raw={"task_id": task_id, **given})


def is_repeat(view: TaskView) -> bool:
    return any("repeats an earlier call" in warning for warning in view.warnings)


def test_run_now_that_is_asked_for_twice_runs_once(scheduler: Scheduler, clock: Clock) -> None:
    task_id = daily(scheduler)
    first = ask(scheduler, task_id, action="run_now")
    clock.forward(seconds=50)
    again = ask(scheduler, task_id, action="run_now")
    assert (is_repeat(first), is_repeat(again)) == (False, True)
    assert again.record == first.record
    assert len(again.record.side_runs) == 1


def test_after_a_minute_the_same_call_is_a_new_wish(scheduler: Scheduler, clock: Clock) -> None:
    task_id = daily(scheduler)
    ask(scheduler, task_id, action="run_now")
    clock.forward(seconds=61)
    again = ask(scheduler, task_id, action="run_now")
    assert not is_repeat(again)
    assert len(again.record.side_runs) == 2


def test_a_repeat_is_known_after_the_run_has_ended(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    task_id = scheduler.schedule("Call John", when="in 1 hour").record.task.id
    ask(scheduler, task_id, action="run_now")
    [ready] = store.claims.make_ready(limit=9)
    [claim] = store.claims.start([Start(ready.run_id)], worker="w", epoch=None, lease=timedelta(seconds=30))
    assert store.claims.settle([settle(claim, Done("called"), now=clock.at, jitter=0.0)]) == [Verdict.SETTLED]
    again = ask(scheduler, task_id, action="run_now")
    assert is_repeat(again)
    assert again.record.run.state is State.SUCCEEDED
    assert store.claims.make_ready(limit=9) == []


@pytest.mark.parametrize("arguments", [{"skip_next": True}, {"when": "in 2 hours"}, {"title": "Daily"}])
def test_a_reschedule_that_is_asked_for_twice_is_made_once(scheduler: Scheduler, arguments: Any, clock: Clock) -> None:
    task_id = daily(scheduler)
    first = scheduler.reschedule(task_id, **arguments, raw=arguments)
    clock.forward(seconds=30)
    again = scheduler.reschedule(task_id, **arguments, raw=arguments)
    assert is_repeat(again)
    assert again.record == first.record


def test_an_undo_that_is_asked_for_twice_is_no_mistake(scheduler: Scheduler) -> None:
    task_id = daily(scheduler)
    token = scheduler.cancel(task_id).undo
    first = ask(scheduler, task_id, action="undo", undo=token)
    again = ask(scheduler, task_id, action="undo", undo=token)
    assert is_repeat(again)
    assert again.record == first.record


def test_a_task_that_the_caller_has_taken_back_may_be_requested_again(scheduler: Scheduler) -> None:
    task_id = daily(scheduler)
    for pause in (True, False, True, False):
        view = scheduler.reschedule(task_id, pause=pause, raw={"pause": pause})
        assert not is_repeat(view)
        assert view.record.task.paused is pause


def test_a_change_by_somebody_else_makes_no_new_wish_of_a_repeat(scheduler: Scheduler) -> None:
    task_id = daily(scheduler)
    ask(scheduler, task_id, action="run_now")
    scheduler.reschedule(task_id, title="Daily", by=Principal("local", "jane"))
    assert is_repeat(ask(scheduler, task_id, action="run_now"))


def test_a_button_pressed_on_the_card_as_it_is_now_is_meant_each_time(scheduler: Scheduler, clock: Clock) -> None:
    task_id = scheduler.schedule("Call John", when="in 1 hour").record.task.id
    first = ask(scheduler, task_id, action="snooze", minutes=10, revision=1)
    clock.forward(seconds=20)
    second = ask(scheduler, task_id, action="snooze", minutes=10, revision=first.record.task.revision)
    assert not is_repeat(second)
    assert second.record.run.scheduled_for == first.record.run.scheduled_for + timedelta(minutes=10)
    twice = ask(scheduler, task_id, action="snooze", minutes=10, revision=first.record.task.revision)
    assert is_repeat(twice)  # the second click of a double click, which would be refused as stale otherwise


def test_a_key_of_ones_own_holds_as_long_as_the_task(scheduler: Scheduler, clock: Clock) -> None:
    task_id = daily(scheduler)
    scheduler.act(task_id, "run_now", idempotency_key="once")
    clock.forward(hours=1)
    again = scheduler.act(task_id, "run_now", revision=2, idempotency_key="once")
    assert is_repeat(again)
    assert len(again.record.side_runs) == 1
    other = scheduler.act(task_id, "run_now", idempotency_key="once more")
    assert len(other.record.side_runs) == 2


def test_a_key_that_named_another_call_is_refused(scheduler: Scheduler) -> None:
    one, two = daily(scheduler), scheduler.schedule("Call John", when="in 1 hour", idempotency_key="k").record.task.id
    scheduler.act(one, "run_now", idempotency_key="once")
    with pytest.raises(IdempotencyConflict, match=one):
        scheduler.act(two, "run_now", idempotency_key="once")
    with pytest.raises(IdempotencyConflict, match="action"):
        scheduler.act(one, "skip_next", idempotency_key="once")
    with pytest.raises(IdempotencyConflict):
        scheduler.act(two, "run_now", idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        scheduler.schedule("Call John", when="in 1 hour", idempotency_key="once")
    with pytest.raises(InvalidArgument, match="idempotency_key"):
        scheduler.act(one, "run_now", idempotency_key="")


def test_a_call_that_was_refused_leaves_its_key_free(scheduler: Scheduler) -> None:
    task_id = daily(scheduler)
    scheduler.reschedule(task_id, pause=True)
    with pytest.raises(Refused):
        scheduler.act(task_id, "run_now", idempotency_key="once")
    scheduler.reschedule(task_id, pause=False)
    assert not is_repeat(scheduler.act(task_id, "run_now", idempotency_key="once"))


def test_one_of_many_calls_at_once_runs_and_all_others_repeat_it(scheduler: Scheduler) -> None:
    task_id = daily(scheduler)
    with ThreadPoolExecutor(8) as pool:
        views = list(pool.map(lambda _: ask(scheduler, task_id, action="run_now"), range(8)))
    assert [is_repeat(view) for view in views].count(False) == 1
    assert len(scheduler.get(task_id).record.side_runs) == 1


def test_programs_that_give_no_key_are_taken_at_their_word(scheduler: Scheduler) -> None:
    task_id = daily(scheduler)
    scheduler.act(task_id, "run_now")
    assert len(scheduler.act(task_id, "run_now").record.side_runs) == 2


def test_a_cancel_is_repeated_by_its_own_state(scheduler: Scheduler) -> None:
    task_id = daily(scheduler)
    first = scheduler.cancel(task_id, idempotency_key="off")
    again = scheduler.cancel(task_id, idempotency_key="off")
    assert again.record == first.record
    assert "already cancelled" in again.warnings[0]

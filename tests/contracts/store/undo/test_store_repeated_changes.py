"""A repeat of a change of many tasks, or of a chain, is known until its caller changes one of them in another way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import BulkResult
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.idempotency import REPEATED_CALL
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.principal import Principal
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk

BOB = Principal(user="bob")


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def two(desk: Desk) -> list[str]:
    return [desk.scheduler.schedule(title, when="tomorrow 9am").record.task.id for title in ("One", "Two")]


def ask(desk: Desk, change: Any, ids: list[str], **arguments: Any) -> BulkResult:
    """Change tasks as an agent does: with the raw arguments of its call."""
    sent = {name: value for name, value in arguments.items() if name != "by"}
    return desk.scheduler.bulk.change(change, ids, **arguments, raw={"change": change, "task_ids": ids, **sent})


def are_paused(desk: Desk, ids: list[str]) -> list[bool]:
    return [desk.scheduler.get(task_id).record.task.paused for task_id in ids]


def test_a_pause_after_a_resume_is_a_change_of_its_own_with_its_undo(desk: Desk) -> None:
    ids = two(desk)
    done = [ask(desk, change, ids) for change in ("pause", "resume", "pause")]
    assert [each.repeated for each in done] == [False] * 3
    assert are_paused(desk, ids) == [True] * 2
    assert ask(desk, "pause", ids).repeated
    desk.scheduler.bulk.change("undo", undo=done[-1].undo)
    assert are_paused(desk, ids) == [False] * 2


def hours(desk: Desk, ids: list[str]) -> list[int]:
    return [desk.scheduler.get(task_id).record.run.scheduled_for.hour for task_id in ids]


@on_each_database
def test_equal_calls_a_minute_apart_are_each_taken_back_the_last_one_first(desk: Desk) -> None:
    ids, done = two(desk), list[BulkResult]()
    for _ in range(2):
        done.append(ask(desk, "move", ids, to="1 hour later"))
        desk.clock.at += timedelta(seconds=61)
    assert not ask(desk, "undo", [], undo=done[1].undo).repeated
    assert hours(desk, ids) == [10] * 2
    assert not ask(desk, "undo", [], undo=done[0].undo).repeated
    assert hours(desk, ids) == [9] * 2


def test_equal_calls_that_mean_other_tasks_are_each_taken_back(desk: Desk) -> None:
    done = list[BulkResult]()
    for title in ("Lunch A", "Lunch B"):
        desk.scheduler.schedule(title, when="tomorrow 12:00", labels=["lunch"])
        sent: Any = {"change": "cancel", "label": "lunch", "expect": 1}
        done.append(desk.scheduler.bulk.change("cancel", where=TaskFilter(label="lunch"), expect=1, raw=sent))
        desk.clock.at += timedelta(seconds=61)
    ids = [each.outcomes[0].record.task.id for each in done]
    for each in done:
        desk.scheduler.bulk.change("undo", undo=each.undo)
    assert [desk.scheduler.get(task_id).record.run.state for task_id in ids] == [State.SCHEDULED] * 2


@on_each_database
def test_equal_moves_of_a_chain_are_each_taken_back_the_last_one_first(desk: Desk) -> None:
    steps: Any = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
    chain_id = desk.scheduler.schedule("Report", when="tomorrow 9am", steps=steps).record.task.id
    tokens = list[str | None]()
    for _ in range(2):
        sent = {"task_id": chain_id, "when": "1 hour later"}
        tokens.append(desk.scheduler.reschedule(chain_id, when="1 hour later", raw=sent).undo)
        desk.clock.at += timedelta(seconds=61)
    view = desk.scheduler.act(chain_id, "undo", undo=tokens[1], raw={"undo": tokens[1]})
    assert view.chain
    assert hours(desk, [view.chain.steps[0].task_id]) == [10]
    desk.scheduler.act(chain_id, "undo", undo=tokens[0], raw={"undo": tokens[0]})
    assert hours(desk, [view.chain.steps[0].task_id]) == [9]


def test_one_task_that_was_resumed_alone_ends_the_repeat(desk: Desk) -> None:
    ids = two(desk)
    ask(desk, "pause", ids)
    desk.scheduler.reschedule(ids[1], pause=False)
    assert not ask(desk, "pause", ids).repeated
    assert are_paused(desk, ids) == [True] * 2


def test_a_move_back_to_an_earlier_time_is_no_repeat(desk: Desk) -> None:
    ids = two(desk)
    for hour in (10, 11, 10):
        assert not ask(desk, "move", ids, to=f"tomorrow {hour}:00").repeated
    assert {desk.scheduler.get(task_id).record.run.scheduled_for.hour for task_id in ids} == {10}


def test_the_change_of_another_caller_leaves_a_repeat_one(desk: Desk) -> None:
    ids = two(desk)
    ask(desk, "pause", ids)
    ask(desk, "resume", ids, by=BOB)
    assert ask(desk, "pause", ids).repeated


def test_a_key_of_the_callers_names_its_call_whatever_was_changed_since(desk: Desk) -> None:
    ids = two(desk)
    ask(desk, "pause", ids, idempotency_key="k")
    ask(desk, "resume", ids)
    assert ask(desk, "pause", ids, idempotency_key="k").repeated


def test_a_repeated_cancel_of_tasks_that_come_after_one_another_is_one(desk: Desk) -> None:
    first = desk.scheduler.schedule("First", when="tomorrow 9am").record.task.id
    ids = [first, desk.scheduler.schedule("Next", after=[first]).record.task.id]
    ask(desk, "cancel", ids)
    assert ask(desk, "cancel", ids).repeated


def test_a_chain_is_paused_again_after_it_was_resumed(desk: Desk) -> None:
    steps: Any = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
    chain_id = desk.scheduler.schedule("Report", when="in 1 hour", steps=steps).record.task.id
    asked = [True, False, True, True]
    views = [
        desk.scheduler.reschedule(chain_id, pause=pause, raw={"task_id": chain_id, "pause": pause}) for pause in asked
    ]
    assert [REPEATED_CALL in view.warnings for view in views] == [False, False, False, True]
    chain = views[-1].chain
    assert chain
    assert are_paused(desk, [step.task_id for step in chain.steps]) == [True] * 2
    assert views[-1].record.run.state is State.SCHEDULED

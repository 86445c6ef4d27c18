"""Several changes of one task are taken back one after the other, the last one first; each undo is exact."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.remedies import Inspect
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store

from tests.builders import Clock
from tests.flow.tools.calls import answers_of

STEPS = [{"name": "fetch"}, {"name": "load", "after": ["fetch"]}]
KINDS: dict[str, dict[str, Any]] = {
    "a chain that recurs": {"repeat": "every day at 9:00", "steps": STEPS},
    "a chain that runs once": {"when": "9:00", "steps": STEPS},
    "a task that recurs": {"repeat": "every day at 9:00"},
    "a task that runs once": {"when": "9:00"},
}


@pytest.fixture
def scheduler(store: Store, clock: Clock) -> Scheduler:
    clock.at = datetime(2026, 11, 23, 8, tzinfo=UTC)
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Scheduler(store, planner)


def made(scheduler: Scheduler, **given: Any) -> str:
    view = scheduler.schedule("Report", **given)
    return view.chain.id if view.chain else view.record.task.id


def moved(scheduler: Scheduler, task_id: str) -> str:
    """Move a task an hour later; return the token that takes that back."""
    undo = scheduler.bulk.change("move", [task_id], to="1 hour later").undo
    assert undo
    return undo


def hour(scheduler: Scheduler, task_id: str) -> int:
    return scheduler.get(task_id).record.run.scheduled_for.hour


@pytest.mark.parametrize("what", KINDS)
def test_equal_moves_are_taken_back_one_after_the_other(scheduler: Scheduler, what: str) -> None:
    task_id = made(scheduler, **KINDS[what])
    before = scheduler.get(task_id).record.run
    tokens = [moved(scheduler, task_id) for _ in range(3)]
    assert hour(scheduler, task_id) == 12
    for token, then in zip(reversed(tokens), (11, 10, 9), strict=True):
        scheduler.bulk.change("undo", undo=token)
        assert hour(scheduler, task_id) == then
    assert scheduler.get(task_id).record.run == before


@pytest.mark.parametrize("what", KINDS)
def test_an_earlier_move_is_taken_back_after_the_later_one_alone_and_the_refusal_says_so(
    scheduler: Scheduler, what: str
) -> None:
    task_id = made(scheduler, **KINDS[what])
    first, second = moved(scheduler, task_id), moved(scheduler, task_id)
    with pytest.raises(
        Refused, match="was changed again since, so that change stays until the later one is taken back"
    ):
        scheduler.bulk.change("undo", undo=first)
    assert hour(scheduler, task_id) == 11
    scheduler.bulk.change("undo", undo=second)
    scheduler.bulk.change("undo", undo=first)
    assert hour(scheduler, task_id) == 9


def test_changes_of_one_task_are_taken_back_one_after_the_other_by_its_own_tokens(scheduler: Scheduler) -> None:
    task_id = made(scheduler, when="9:00")
    changes: list[dict[str, Any]] = [{"when": "10:00"}, {"title": "Other"}, {"pause": True}, {"priority": "high"}]
    views = [scheduler.reschedule(task_id, **each) for each in changes]
    for view in reversed(views):
        scheduler.act(task_id, "undo", undo=view.undo)
    record = scheduler.get(task_id).record
    assert (record.task.title, record.task.paused, record.task.priority.value) == ("Report", False, "normal")
    assert record.run.scheduled_for.hour == 9


def test_the_refusal_to_take_an_earlier_change_back_names_what_takes_the_later_one_back(
    scheduler: Scheduler, clock: Clock
) -> None:
    answer, task_id = answers_of(scheduler), made(scheduler, when="9:00")
    tokens = [scheduler.reschedule(task_id, title=title).undo for title in ("One", "Two")]
    accepted, said = answer("act_on_task", {"task_id": task_id, "action": "undo", "undo": tokens[0]})
    assert not accepted
    assert said.endswith(
        f'act_on_task(action="undo", undo="{tokens[1]}"), where that is a tool, takes the later one back.'
    )
    for token in reversed(tokens):
        assert answer("act_on_task", {"task_id": task_id, "action": "undo", "undo": token})[0]
    assert scheduler.get(task_id).record.task.title == "Report"


def test_a_later_change_that_is_too_old_is_not_named(scheduler: Scheduler, clock: Clock) -> None:
    task_id = made(scheduler, when="9:00")
    first, _ = scheduler.reschedule(task_id, title="One").undo, scheduler.reschedule(task_id, title="Two")
    clock.forward(minutes=1)
    with pytest.raises(Refused) as refused:
        scheduler.act(task_id, "undo", undo=first)
    assert refused.value.remedy == Inspect(task_id)


def test_a_change_after_an_undo_keeps_what_was_changed_before_it(scheduler: Scheduler) -> None:
    task_id = made(scheduler, when="9:00")
    first, second = moved(scheduler, task_id), moved(scheduler, task_id)
    scheduler.bulk.change("undo", undo=second)
    third = moved(scheduler, task_id)
    with pytest.raises(Refused, match="until the later one is taken back"):
        scheduler.bulk.change("undo", undo=first)
    scheduler.bulk.change("undo", undo=third)
    scheduler.bulk.change("undo", undo=first)
    assert hour(scheduler, task_id) == 9


def test_an_undo_is_not_taken_back_by_the_token_of_what_it_took_back(scheduler: Scheduler) -> None:
    task_id = made(scheduler, when="9:00")
    view = scheduler.reschedule(task_id, when="10:00")
    scheduler.act(task_id, "undo", undo=view.undo)
    with pytest.raises(Refused):
        scheduler.act(task_id, "undo", undo=view.undo)
    assert hour(scheduler, task_id) == 9

"""Answers name the times at which a series will run: none during a pause that has an end, and none that has passed."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from duetime.scheduler.dispatch.dispatcher import Dispatcher
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskView
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock

DAILY = "daily at 9:00"


@pytest.fixture
def scheduler(store: Store, clock: Clock) -> Scheduler:
    clock.at = datetime(2026, 11, 28, 22, tzinfo=UTC)
    return Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known))


def said(view: TaskView) -> str:
    return task_text(task_payload(view))


def test_a_series_that_is_paused_until_a_time_says_when_it_runs_after_that(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Report", repeat=DAILY).record.task.id
    text = said(scheduler.reschedule(task_id, pause_until="2026-12-02 12:00"))
    assert "Its time is Thu 3 Dec 2026 09:00" in text
    assert "29 Nov" not in text


def test_a_pause_up_to_its_time_leaves_it_that_time(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Report", repeat=DAILY).record.task.id
    text = said(scheduler.reschedule(task_id, pause_until="2026-11-29 9:00"))
    assert re.match(r"The \w+ is paused until Sun 29 Nov 2026 09:00 [^.]*, which is its time\.\n", text)
    assert "To go on sooner, resume it with reschedule_task(pause=false)." in text
    assert text.count("29 Nov") == 1, "it says once until when"
    assert len(text) < 450


def test_a_pause_up_to_the_end_of_a_series_says_that_nothing_comes_after_it(scheduler: Scheduler) -> None:
    task_id = scheduler.schedule("Report", repeat=DAILY, until="2026-12-01").record.task.id
    text = said(scheduler.reschedule(task_id, pause_until="2026-12-05"))
    assert "None of its times comes after that." in text
    assert "29 Nov" not in text


def test_times_of_another_year_than_the_present_one_say_which(scheduler: Scheduler) -> None:
    text = said(scheduler.schedule("Report", repeat="yearly", when="2029-12-01 9:00"))
    assert "Next: Sat 1 Dec 2029 09:00" in text


STEPS: list[StepArguments] = [{"name": "first"}, {"name": "second", "after": ["first"]}]


@pytest.mark.parametrize(
    "more",
    [
        {"steps": STEPS},
        {"steps": STEPS, "repeat_policy": {"coalesce": "all"}},
        {"repeat_policy": {"coalesce": "all"}},
        {"repeat_policy": {"coalesce": "earliest"}},
    ],
    ids=["chain", "chain-all", "series-all", "series-earliest"],
)
def test_an_occurrence_during_a_pause_that_runs_at_its_end_is_announced(
    scheduler: Scheduler, store: Store, clock: Clock, more: Any
) -> None:
    task_id = scheduler.schedule("Report", repeat=DAILY, **more).record.task.id
    text = said(scheduler.reschedule(task_id, pause_until="2026-12-02 12:00"))
    assert "is paused until Wed 2 Dec 2026 12:00 UTC, in 4 days, which is its time." in text
    view = scheduler.get(task_id)
    assert [f"{each.wall:%d %b %H:%M}" for each in view.upcoming[:2]] == ["02 Dec 12:00", "03 Dec 09:00"]
    clock.at = datetime(2026, 12, 2, 12, tzinfo=UTC)
    Dispatcher(store, MemoryQueue()).step()
    clock.forward(seconds=1)
    store.claims.make_ready(limit=1_000)
    step = view.chain.steps[0].task_id if view.chain else task_id
    assert scheduler.get(step).record.run.state is State.READY


def test_a_chain_that_runs_none_of_the_missed_generations_names_the_time_after_its_pause(scheduler: Scheduler) -> None:
    policy = {"catchup_window": "1 hour"}
    chain_id = scheduler.schedule("Report", steps=STEPS, repeat=DAILY, repeat_policy=policy).record.task.id
    view = scheduler.reschedule(chain_id, pause_until="2026-12-02 12:00")
    assert f"{view.upcoming[0].wall:%d %b %H:%M}" == "03 Dec 09:00"
    assert "29 Nov" not in said(view)


def test_a_run_that_waits_for_an_answer_names_no_time_that_has_passed(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = scheduler.schedule("Report", repeat=DAILY, approval={"question": "Send it?"}).record.task.id
    assert "Next: Sun 29 Nov 09:00, Mon 30 Nov 09:00" in said(scheduler.get(task_id))
    clock.at = datetime(2026, 11, 29, 9, tzinfo=UTC)
    Dispatcher(store, MemoryQueue()).step()
    clock.at = datetime(2026, 12, 5, 12, tzinfo=UTC)
    view = scheduler.get(task_id)
    assert view.record.run.state is State.WAITING
    assert "Next: Sun 6 Dec 09:00, Mon 7 Dec 09:00" in said(view)


@pytest.mark.parametrize(("policy", "second"), [(None, "Sun 6 Dec"), ({"overlap": "buffer_all"}, "Mon 30 Nov")])
def test_a_run_that_is_late_names_the_times_that_its_policy_leaves(
    scheduler: Scheduler, clock: Clock, policy: Any, second: str
) -> None:
    task_id = scheduler.schedule("Report", repeat=DAILY, repeat_policy=policy).record.task.id
    clock.at = datetime(2026, 12, 5, 12, tzinfo=UTC)
    assert f"Next: {second} 09:00" in said(scheduler.get(task_id))


def test_a_run_that_is_open_names_no_time_that_has_passed(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    task_id = scheduler.schedule("Report", repeat=DAILY).record.task.id
    clock.at = datetime(2026, 11, 29, 9, tzinfo=UTC)
    Dispatcher(store, MemoryQueue()).step()
    clock.at = datetime(2026, 12, 5, 12, tzinfo=UTC)
    view = scheduler.get(task_id)
    assert view.record.run.state is State.READY
    assert "Next: Sun 6 Dec 09:00, Mon 7 Dec 09:00" in said(view)

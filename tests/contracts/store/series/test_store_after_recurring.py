"""A task that comes after one that repeats: the next run to end counts, and an occurrence that is left out is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State

from tests.builders import Clock
from tests.contracts.store.desk import MORNING, Desk, at

WAITING, SCHEDULED = State.WAITING, State.SCHEDULED
ASKS: dict[str, Any] = {"approval": {"question": "Load?", "by": "20 min"}}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def both(desk: Desk, **more: Any) -> tuple[str, str]:
    """Schedule a task that is due each hour from 9 on, and one that comes after it; return both."""
    hourly = desk.scheduler.schedule("Load", repeat="every hour at :00", **more).record.task.id
    return hourly, desk.scheduler.schedule("Report", when="now", after=[hourly]).record.task.id


def awaiting(lot: str) -> dict[str, Any]:
    return {"wait_for": {"event": "ready", "timeout": "20 min", "on_timeout": lot}}


def state(desk: Desk, task_id: str) -> State:
    return desk.scheduler.get(task_id).record.run.state


def skip_next(desk: Desk, hourly: str) -> None:
    desk.scheduler.act(hourly, "skip_next")


def say_no(desk: Desk, hourly: str) -> None:
    desk.start(9)
    desk.scheduler.reject(hourly)


def wait_in_vain(desk: Desk, _hourly: str) -> None:
    desk.start(9)
    desk.clock.at = at(9, 21)
    desk.store.signals.end_late(limit=9)
    desk.store.approvals.expire(limit=9)


@pytest.mark.parametrize(
    ("given", "left_out"),
    [({}, skip_next), (ASKS, say_no), (ASKS, wait_in_vain), (awaiting("skip"), wait_in_vain)],
    ids=["skipped", "rejected", "not answered", "no event"],
)
def test_an_occurrence_that_is_left_out_decides_nothing_and_the_next_one_counts(
    desk: Desk, given: dict[str, Any], left_out: Callable[[Desk, str], None]
) -> None:
    hourly, report = both(desk, **given)
    left_out(desk, hourly)
    assert (state(desk, hourly), state(desk, report)) == (SCHEDULED, WAITING)
    if given:
        assert desk.start(10) == []
        desk.scheduler.signals.send("ready") if "wait_for" in given else desk.scheduler.approve(hourly)
    desk.end(desk.start(10, 1))
    assert [claim.task.id for claim in desk.start(10, 2)] == [report]


def test_an_occurrence_that_expires_counts_as_a_failure(desk: Desk) -> None:
    hourly, report = both(desk, **awaiting("expire"))
    wait_in_vain(desk, hourly)
    assert (state(desk, hourly), state(desk, report)) == (SCHEDULED, State.FAILED)


@pytest.mark.parametrize(
    ("given", "ends"), [(ASKS, State.CANCELLED), (awaiting("skip"), State.SKIPPED)], ids=["not answered", "no event"]
)
def test_a_series_that_ends_with_an_occurrence_that_is_left_out_ends_what_comes_after_it(
    desk: Desk, given: dict[str, Any], ends: State
) -> None:
    hourly, report = both(desk, **given, until="at 9:30")
    wait_in_vain(desk, hourly)
    assert (state(desk, hourly), state(desk, report)) == (ends, ends)

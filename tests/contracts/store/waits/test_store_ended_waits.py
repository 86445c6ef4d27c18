"""Waits of runs that end, or are run now, before their event has come: none stays."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.task import State
from duetime.scheduler.waits.signal import SentSignal
from sqlalchemy import select

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

HOURS = timedelta(hours=5)
PAID: dict[str, Any] = {"event": "paid", "timeout": "5 hours"}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def open_waits(desk: Desk) -> list[str]:
    """Return the names of the events that are awaited."""
    names = select(signal_waits.c.name).where(signal_waits.c.closed_at.is_(None)).order_by(signal_waits.c.waiter_id)
    return list(desk.store._database.read(lambda connection: connection.execute(names).scalars().all()))


def sent(desk: Desk) -> tuple[int, int]:
    found: SentSignal = desk.scheduler.signals.send("paid", event_id="e1")
    return found.freed, found.matched


def waiting_beside(desk: Desk) -> str:
    """Return a daily task of which a run out of turn waits for an event in the middle."""
    task_id = desk.scheduler.schedule("Report", repeat="every day at 20:00").record.task.id
    desk.scheduler.act(task_id, "run_now")
    desk.end_anew(desk.start(9), Wait(event="paid", timeout=HOURS))
    assert [run.state for run in desk.scheduler.get(task_id).record.side_runs] == [State.SUSPENDED]
    assert open_waits(desk) == ["paid"]
    return task_id


@on_each_database
def test_a_run_out_of_turn_that_is_cancelled_with_its_task_waits_no_longer(desk: Desk) -> None:
    task_id = waiting_beside(desk)
    desk.scheduler.cancel(task_id)
    assert open_waits(desk) == []
    assert sent(desk) == (0, 0)
    assert desk.store.signals.end_late(limit=9) == []
    assert desk.scheduler.get(task_id).record.run.state is State.CANCELLED


def test_a_run_that_waits_in_the_middle_waits_no_longer_once_it_is_cancelled(desk: Desk) -> None:
    task_id = desk.scheduler.schedule("Report", when="at 9:00").record.task.id
    desk.end_anew(desk.start(9), Wait(event="paid", timeout=HOURS))
    desk.scheduler.cancel(task_id)
    assert (open_waits(desk), sent(desk)) == ([], (0, 0))


def one_that_waits(desk: Desk, **more: Any) -> str:
    waits = {"any": [{"event": "paid"}, {"event": "waived"}], "timeout": "5 hours"}
    return desk.scheduler.schedule("Ship", when="at 9:00", wait_for=waits, **more).record.task.id


@pytest.mark.parametrize("change", ["cancel", "run now"])
def test_a_task_that_waits_no_longer_waits_again_until_the_same_time_after_the_undo(desk: Desk, change: str) -> None:
    task_id, scheduler = one_that_waits(desk), desk.scheduler
    assert open_waits(desk) == ["paid", "waived"]
    view = scheduler.cancel(task_id) if change == "cancel" else scheduler.act(task_id, "run_now")
    assert open_waits(desk) == []
    desk.scheduler.act(task_id, "undo", undo=view.undo)
    assert open_waits(desk) == ["paid", "waived"]
    kept = desk.store.signals.wait_of_run("local", task_id, view.record.run.id)
    assert kept is not None
    assert kept.wait.until == at(13)
    assert sent(desk) == (1, 0)


def test_an_event_between_a_cancel_and_its_undo_counts(desk: Desk) -> None:
    task_id = one_that_waits(desk)
    view = desk.scheduler.cancel(task_id)
    assert sent(desk) == (0, 0)
    assert desk.scheduler.act(task_id, "undo", undo=view.undo).record.run.state is State.SCHEDULED


def test_a_task_whose_deadline_cannot_be_met_waits_no_longer(desk: Desk) -> None:
    one_that_waits(desk, deadline="at 9:30", deadline_type="hard")
    desk.clock.at = at(10)
    desk.expire()
    assert (open_waits(desk), sent(desk)) == ([], (0, 0))


def test_a_step_that_does_not_run_waits_no_longer_and_waits_again_when_what_it_comes_after_does(desk: Desk) -> None:
    steps: Any = [{"name": "fetch"}, {"name": "ship", "after": ["fetch"], "wait_for": PAID}]
    view = desk.scheduler.schedule("Order", when="at 9:00", steps=steps)
    assert view.chain
    fetch = view.chain.steps[0].task_id
    undo = desk.scheduler.cancel(fetch).undo
    assert open_waits(desk) == []
    desk.scheduler.act(fetch, "undo", undo=undo)
    assert open_waits(desk) == ["paid"]
    undo = desk.scheduler.cancel(view.record.task.id).undo
    assert open_waits(desk) == []
    desk.scheduler.act(view.record.task.id, "undo", undo=undo)
    assert open_waits(desk) == ["paid"]
    assert sent(desk) == (0, 1)
    desk.end(desk.start(9))
    assert [claim.task.title for claim in desk.start(9, 1)] == ["Order: ship"]


def test_a_step_that_is_rejected_waits_no_longer(desk: Desk) -> None:
    asks: Any = {"question": "Ship?", "by": "1 hour"}
    task_id = one_that_waits(desk, approval=asks)
    desk.scheduler.reject(task_id)
    assert (open_waits(desk), sent(desk)) == ([], (0, 0))

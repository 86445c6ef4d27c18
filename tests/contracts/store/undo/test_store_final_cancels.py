"""A cancel of many tasks says which of them no undo brings back: those that run, or had begun, and what comes after."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.calls.bulk_change import Became, BulkResult
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Retry
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.widgets.bulk.payload import bulk_payload
from duetime.widgets.bulk.text import bulk_text

from tests.builders import Clock
from tests.contracts.store.series.test_store_series import MORNING, Desk

RUNS = "it is asked to stop: its run has begun, so the cancel cannot be undone"
HAD_BEGUN = "its run has begun, so the cancel cannot be undone"


@pytest.fixture
def target(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    return Desk(Scheduler(store, Planner(Handlers.load(entry_points=False), "Europe/Berlin")), store, clock)


@pytest.fixture
def three(target: Desk) -> list[str]:
    """Schedule a task for tomorrow, one that runs, and one that waits for its next attempt."""
    later = target.scheduler.schedule("Later", when="tomorrow 14:00").record.task.id
    retrying = target.scheduler.schedule("Retrying", when="in 0 s").record.task.id
    target.end(target.start(), Retry("not yet", after=timedelta(minutes=1)))
    runs = target.scheduler.schedule("Runs", when="in 0 s").record.task.id
    target.start()
    return [later, runs, retrying]


def whys(result: BulkResult) -> dict[str, str | None]:
    return {row.title: row.why for row in bulk_payload(result).tasks}


def test_a_cancel_and_its_dry_run_name_what_no_undo_brings_back(target: Desk, three: list[str]) -> None:
    tried = target.scheduler.bulk.change("cancel", three, dry_run=True)
    assert "This would cancel 3 tasks; the cancel of 2 of them could not be undone." in bulk_text(tried)
    assert whys(tried) == {"Later": None, "Runs": RUNS, "Retrying": HAD_BEGUN}
    assert bulk_payload(tried).bulk.final == 2

    done = target.scheduler.bulk.change("cancel", three)
    said = bulk_text(done)
    assert said.startswith("Cancelled 3 tasks; the cancel of 2 of them cannot be undone.")
    assert f"change_tasks(change='undo', undo='{done.undo}') takes the rest back." in said
    assert "->" not in said, "nothing was moved"
    assert whys(done) == {"Later": None, "Runs": RUNS, "Retrying": HAD_BEGUN}
    assert bulk_payload(done).bulk.final == 2


def test_the_undo_of_a_cancel_names_what_stays_cancelled(target: Desk, three: list[str]) -> None:
    done = target.scheduler.bulk.change("cancel", three)
    back = target.scheduler.bulk.change("undo", undo=done.undo)
    assert bulk_text(back).startswith("Took back the change of 1 task; 2 refused it.")
    assert whys(back) == {"Runs": RUNS, "Retrying": HAD_BEGUN, "Later": None}
    assert [each.became for each in back.outcomes] == [Became.REFUSED, Became.REFUSED, Became.CHANGED]

    again = target.scheduler.bulk.change("undo", undo=done.undo)
    assert (again.repeated, whys(again)) == (True, whys(back))
    states = [target.scheduler.get(task_id).record.run.state for task_id in three]
    assert states == [State.SCHEDULED, State.RUNNING, State.CANCELLED]


def test_a_cancel_of_a_task_that_runs_has_no_undo_and_says_so(target: Desk, three: list[str]) -> None:
    done = target.scheduler.bulk.change("cancel", [three[1]])
    assert bulk_text(done).startswith("Cancelled 1 task; the cancel cannot be undone.")
    assert (done.undo, bulk_payload(done).bulk.final) == (None, 1)


def test_a_cancel_of_what_has_not_begun_can_be_taken_back_whole(target: Desk, three: list[str]) -> None:
    done = target.scheduler.bulk.change("cancel", [three[0]])
    assert "takes all of it back." in bulk_text(done)
    assert bulk_payload(done).bulk.final is None

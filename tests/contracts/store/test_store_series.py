"""A recurring task from its first occurrence to its last, on each database: what is changed on the way, and undone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from duetime.scheduler.channels import Channels
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake import Intake
from duetime.scheduler.outcomes import Done, Outcome
from duetime.scheduler.scheduler import Scheduler
from duetime.scheduler.settlement import settle
from duetime.scheduler.store import Claim, Start, Store, Verdict
from duetime.scheduler.task import State, TaskView

from tests.contracts.store.making import LEASE, Clock

MORNING = datetime(2026, 11, 23, 8, tzinfo=UTC)  # a Monday
OPEN = (State.SCHEDULED, State.READY, State.RUNNING)


@dataclass(frozen=True)
class Desk:
    """A scheduler in UTC over a real store, and a hand that runs what is due."""

    scheduler: Scheduler
    store: Store
    clock: Clock

    def schedule(self, **arguments: object) -> str:
        return self.scheduler.schedule("Take the pill", **arguments).record.task.id  # type: ignore[arg-type] # each test's own

    def start(self) -> list[Claim]:
        ready = [Start(run.run_id) for run in self.store.claims.make_ready(limit=9)]
        return self.store.claims.start(ready, worker="w", epoch=None, lease=LEASE)

    def end(self, claims: list[Claim], outcome: Outcome) -> None:
        settled = [settle(claim, outcome, now=self.clock(), jitter=0.0) for claim in claims]
        assert set(self.store.claims.settle(settled)) <= {Verdict.SETTLED}

    def run(self, at: datetime, outcome: Outcome = Done("taken")) -> int:  # noqa: B008 - a frozen value
        """Run what is due at a time; returns how many runs that were."""
        self.clock.at = at
        claims = self.start()
        self.end(claims, outcome)
        return len(claims)

    def get(self, task_id: str) -> TaskView:
        return self.scheduler.get(task_id)


def day(number: int, hour: int = 9, minute: int = 0) -> datetime:
    """Return a time of the nth day, the first being the Monday."""
    return datetime(2026, 11, 22 + number, hour, minute, tzinfo=UTC)


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    intake = Intake(Handlers.load(entry_points=False), "UTC", channels=Channels())
    return Desk(Scheduler(store, intake), store, clock)


# -- undo


def test_undo_brings_back_an_occurrence_and_a_snooze_to_the_same_time(desk: Desk) -> None:
    task_id = desk.schedule(repeat="every day at 9:00")
    desk.run(day(1))
    desk.scheduler.act(task_id, "snooze", until="tomorrow 9am")
    cancelled = desk.scheduler.cancel(task_id)
    back = desk.scheduler.act(task_id, "undo", undo=cancelled.undo).record
    assert [run.scheduled_for for run in (back.run, *back.beside)] == [day(2), day(2)]
    assert desk.run(day(2)) == 2


def test_undo_brings_back_what_this_cancel_took_and_no_snooze_that_another_had_replaced(desk: Desk) -> None:
    task_id = desk.schedule(repeat="every day at 9:00")
    desk.run(day(1))
    desk.scheduler.act(task_id, "snooze", minutes=10)
    desk.scheduler.act(task_id, "snooze", minutes=30)
    cancelled = desk.scheduler.cancel(task_id)
    back = desk.scheduler.act(task_id, "undo", undo=cancelled.undo).record
    assert [run.wake_at for run in back.beside] == [day(1, 9, 30)]

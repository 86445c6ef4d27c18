"""A call that is made twice, because its answer was lost, has the effect of one; on each database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from duetime.scheduler.errors import IdempotencyConflict, InvalidArgument
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake import Intake
from duetime.scheduler.request import Request
from duetime.scheduler.scheduler import Scheduler
from duetime.scheduler.store import Store, open_store

from tests.contracts.store.making import Clock

IN_A_MINUTE = "2026-11-24 12:01"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/duetime.db" if sqlite else request.getfixturevalue("postgres_url")
    opened = open_store(url, clock=clock, synchronous="OFF")
    yield opened
    opened.close()


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Intake(Handlers.load(entry_points=False), "UTC"))


def two_requests() -> list[Request]:
    return [
        Request("Call John", when=IN_A_MINUTE, idempotency_key="john"),
        Request("Call Jane", when="tomorrow 9am", idempotency_key="jane"),
    ]


def test_many_are_scheduled_once_also_when_the_time_of_one_has_passed(scheduler: Scheduler, clock: Clock) -> None:
    first = scheduler.schedule_many(two_requests())
    clock.forward(minutes=2)
    again = scheduler.schedule_many(two_requests())

    assert [view.record.task.id for view in again] == [view.record.task.id for view in first]
    assert [view.created for view in again] == [False, False]
    assert all("repeats an earlier call" in view.warnings[0] for view in again)
    assert len(scheduler.list().views) == 2


def test_a_repeat_of_many_that_was_extended_stores_what_is_new(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.schedule_many(two_requests())
    clock.forward(minutes=2)
    again = scheduler.schedule_many([*two_requests(), Request("Call Joe", when="in 1 hour")])
    assert [view.created for view in again] == [False, False, True]
    assert len(scheduler.list().views) == 3


def test_one_of_many_that_is_past_and_new_refuses_them_all(scheduler: Scheduler, clock: Clock) -> None:
    scheduler.schedule_many(two_requests())
    clock.forward(minutes=2)
    with pytest.raises(InvalidArgument, match="in the past"):
        scheduler.schedule_many([*two_requests(), Request("Call Joe", when=IN_A_MINUTE, idempotency_key="joe")])
    with pytest.raises(IdempotencyConflict, match="Call John"):
        scheduler.schedule_many([Request("Call Jack", when=IN_A_MINUTE, idempotency_key="john")])
    assert len(scheduler.list().views) == 2

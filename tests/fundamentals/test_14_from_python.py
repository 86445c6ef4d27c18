"""Lesson 14: a program schedules, reads and changes tasks with the same words and rules as an agent."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from duetime import Scheduler
from duetime.scheduler.errors import DuetimeError
from duetime.scheduler.request import Request
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskFilter, TaskPage
from duetime.server.settings.model import Settings


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[Scheduler]:
    settings = Settings(
        database_url=f"sqlite:///{tmp_path / 'duetime.db'}", desktop_notifications="off", timezone="Europe/Berlin"
    )
    with Scheduler.open(settings, run=False) as scheduler:  # schedules and reads; runs nothing
        yield scheduler


def titles(page: TaskPage) -> list[str]:
    return [view.record.task.title for view in page.views]


def test_a_program_names_a_time_in_words_or_as_a_span_from_now(scheduler: Scheduler) -> None:
    daily = scheduler.schedule("Water the plants", repeat="every day at 18:00")
    soon = scheduler.schedule("Stretch", when=timedelta(minutes=5), labels=["health"])

    assert daily.repeat_text == "every day at 18:00"
    assert titles(scheduler.list(TaskFilter(label="health"))) == ["Stretch"]

    scheduler.reschedule(soon.record.task.id, priority="high", deadline=timedelta(minutes=10))
    cancelled = scheduler.cancel(soon.record.task.id, reason="it rains")
    assert cancelled.record.run.state is State.CANCELLED


def test_many_requests_are_stored_together_or_not_at_all(scheduler: Scheduler) -> None:
    with pytest.raises(DuetimeError, match="past"):
        scheduler.schedule_many([Request(title="Good", when="in 1 hour"), Request(title="Bad", when="2001-01-01 9:00")])
    assert titles(scheduler.list()) == []

    scheduler.schedule_many([Request(title="One", when="in 1 hour"), Request(title="Two", when="in 2 hours")])
    assert titles(scheduler.list()) == ["One", "Two"]

"""An answer says until when quiet hours will hold the outcome of a run that is due in them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage
from duetime.scheduler.views import TaskView
from duetime.server.cli.formats.task_facts import task_facts, task_line
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock
from tests.flow.tools.calls import settled

HELD = "2026-11-24T07:00:00Z"
IN_WORDS = "Delivery to team: held until Tue 24 Nov 2026 07:00 (quiet hours), to the inbox at once."
AT_NIGHT: dict[str, Any] = {"when": "23:30", "deliver_to": ["team"]}


@dataclass(frozen=True)
class Team:
    """A channel that is never tried here."""

    name: str = "team"

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Send nothing."""

    def close(self) -> None:
        """Close nothing."""


@pytest.fixture
def scheduler(store: Store, clock: Clock) -> Scheduler:
    clock.at = datetime(2026, 11, 23, 12, tzinfo=UTC)
    made = Scheduler(store, Planner(Handlers.load(entry_points=False), "UTC", channels=Channels([Team()])))
    made.quiet_hours.set("22:00-07:00")
    return made


def held_until(view: TaskView) -> str | None:
    delivery = task_payload(view).delivery
    return delivery.held_until if delivery else None


def test_each_answer_about_a_run_in_quiet_hours_says_until_when_its_outcome_is_held(
    scheduler: Scheduler, capsys: pytest.CaptureFixture[str]
) -> None:
    made = scheduler.schedule("Call", **AT_NIGHT)
    task_id = made.record.task.id
    views = [made, scheduler.get(task_id), scheduler.reschedule(task_id, when="23:45")]
    assert [held_until(view) for view in views] == [HELD] * 3
    assert all(IN_WORDS in task_text(task_payload(view)) for view in views)
    task_line("scheduled", task_payload(made))
    task_facts(task_payload(made))
    assert capsys.readouterr().out.count(" team: held until Tue 24 Nov 2026 07:00 (quiet hours)") == 2
    assert held_until(scheduler.reschedule(task_id, when="tomorrow 12:00")) is None


@pytest.mark.parametrize(
    "given",
    [
        {"priority": "high"},
        {"deadline": "tomorrow 6:00", "deadline_type": "hard"},
        {"notify": "never"},
        {"deliver_to": []},
    ],
    ids=str,
)
def test_an_outcome_that_cannot_wait_or_that_no_channel_gets_is_not_held(
    scheduler: Scheduler, given: dict[str, Any]
) -> None:
    assert held_until(scheduler.schedule("Call", **{**AT_NIGHT, **given})) is None


def test_a_task_with_an_outcome_says_how_that_was_delivered(scheduler: Scheduler, store: Store, clock: Clock) -> None:
    task_id = scheduler.schedule("Call", repeat="every day at 23:30", deliver_to=["team"]).record.task.id
    clock.at = datetime(2026, 11, 23, 23, 30, tzinfo=UTC)
    settled(store, clock(), Done("called"))
    clock.at = datetime(2026, 11, 24, 12, tzinfo=UTC)
    assert held_until(scheduler.get(task_id)) is None

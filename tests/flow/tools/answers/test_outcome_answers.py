"""Answers about an outcome: it stays unread through changes, and they say where and until when it is delivered."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.delivery import Channels
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import InboxMessage
from duetime.server.cli.formats import task_facts
from duetime.widgets.payload import task_payload
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock, restarted


class Team:
    """A channel that is never tried here."""

    name = "webhook:team"

    def send(self, message: InboxMessage, *, key: str) -> None:
        """Send nothing."""

    def close(self) -> None:
        """Close nothing."""


@pytest.fixture
def scheduler(store: Store) -> Scheduler:
    return Scheduler(store, Planner(Handlers.load(), "UTC", channels=Channels([Team()])))


def ended(scheduler: Scheduler, store: Store, outcome: Done | Failed, **given: Any) -> str:
    task_id = scheduler.schedule("Backup", when=store.now(), **given).record.task.id
    claim = restarted(store, scheduler.get(task_id).record)
    store.claims.settle([settle(claim, outcome, now=store.now(), jitter=0.0)])
    return task_id


def test_the_answer_of_a_change_has_the_outcome_that_is_unread(scheduler: Scheduler, store: Store) -> None:
    task_id = ended(scheduler, store, Done("copied"))
    snoozed = scheduler.act(task_id, "snooze", minutes=10)
    back = scheduler.act(task_id, "undo", undo=snoozed.undo)
    assert [len(view.unread) for view in (scheduler.get(task_id), snoozed, back)] == [1, 1, 1]
    assert task_payload(back).unread is not None
    assert "1 unread." in task_text(task_payload(back))
    assert scheduler.act(task_id, "done").unread == ()


def test_an_outcome_that_the_user_is_never_told_of_is_not_in_the_inbox(
    scheduler: Scheduler, store: Store, clock: Clock
) -> None:
    task_id = ended(scheduler, store, Failed("disk full"), notify="never", on_failure={"notify": "webhook:team"})
    [delivery] = scheduler.get(task_id).record.deliveries
    store.deliveries.settle_delivered([delivery.id], 0)
    assert scheduler.inbox.unread() == []
    assert "delivered to webhook:team." in task_text(task_payload(scheduler.get(task_id)))


def test_a_delivery_that_quiet_hours_hold_says_until_when(
    scheduler: Scheduler, store: Store, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    task_id = ended(scheduler, store, Failed("disk full"), on_failure={"notify": "webhook:team"})
    [delivery] = scheduler.get(task_id).record.deliveries
    store.deliveries.postpone({delivery.id: clock() + timedelta(hours=19)})
    payload = task_payload(scheduler.get(task_id))
    held = "not yet delivered to webhook:team: held until Wed 25 Nov 2026 07:00 (quiet hours)"
    assert held in task_text(payload)
    task_facts.task_facts(payload)
    assert held in capsys.readouterr().out
    clock.forward(hours=20)
    assert "held" not in task_text(task_payload(scheduler.get(task_id)))

"""A reminder whose `notify` leaves out successes notifies nobody: the call warns of it, and answers do not say else."""

from __future__ import annotations

from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.widgets.formats.speech import speech
from duetime.widgets.payload import as_json, list_payload, task_payload
from duetime.widgets.text.list_text import list_text
from duetime.widgets.text.task_text import task_text

from tests.builders import Clock
from tests.contracts.store.desk import MORNING, Desk

SILENT = ["never", "failure"]


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def fired(desk: Desk, **given: Any) -> str:
    task_id = desk.scheduler.schedule("Pills", when="at 9:00", **given).record.task.id
    desk.end(desk.start(9))
    return task_id


@pytest.mark.parametrize("notify", SILENT)
def test_nobody_is_said_to_have_been_reminded_who_was_not(desk: Desk, notify: Any) -> None:
    task_id = fired(desk, notify=notify)
    view, page = desk.scheduler.get(task_id), desk.scheduler.tasks.list()
    assert not desk.scheduler.inbox.unread()
    assert task_text(task_payload(view)).startswith(
        "The reminder came Mon 23 Nov 2026 09:00 UTC, now, and nobody was notified."
    )
    assert speech(task_payload(view)) == "Pills came today at nine in the morning, and nobody was notified."
    assert "reminded" not in list_text(page)
    [row] = as_json(list_payload(page))["tasks"]
    assert "reminder" not in row


@pytest.mark.parametrize("notify", [None, "always", "change"])
def test_a_reminder_that_came_says_so(desk: Desk, notify: Any) -> None:
    task_id = fired(desk, notify=notify)
    assert len(desk.scheduler.inbox.unread()) == 1
    assert task_text(task_payload(desk.scheduler.get(task_id))).startswith("The user was reminded Mon 23 Nov")
    [row] = as_json(list_payload(desk.scheduler.tasks.list()))["tasks"]
    assert row["reminder"] is True


@pytest.mark.parametrize("notify", SILENT)
def test_a_reminder_that_can_notify_nobody_is_stored_with_a_warning(desk: Desk, notify: Any) -> None:
    warning = f"this reminder will notify nobody, because of notify='{notify}'; notify='always' reminds the user"
    view = desk.scheduler.schedule("Pills", when="in 1 hour", notify=notify)
    assert view.warnings == (warning,)
    heard = desk.scheduler.schedule("Lunch", when="in 1 hour")
    assert heard.warnings == ()
    assert warning in desk.scheduler.reschedule(heard.record.task.id, notify=notify).warnings
    chain = desk.scheduler.schedule("Pauses", when="in 2 hours", steps=[{"name": "a"}, {"name": "b"}], notify=notify)
    assert chain.warnings.count(warning) == 1


def test_other_work_may_be_silent_without_a_warning(desk: Desk) -> None:
    request: Any = {"action": "webhook", "payload": {"url": "https://example.com/hook"}, "notify": "failure"}
    assert desk.scheduler.schedule("Ping", when="in 1 hour", **request).warnings == ()

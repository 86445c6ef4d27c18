"""An answer says until when its token takes the change back, and the token works until then."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.rules.time.times import utc
from duetime.scheduler.service.scheduler import Scheduler

from tests.builders import Clock
from tests.flow.tools.calls import Ask, asked_of

STEPS = [{"name": "pack", "action": "reminder"}, {"name": "ship", "action": "reminder", "after": ["pack"]}]
CANCEL: Mapping[str, Any] = {"name": "cancel_task"}
MOVE: Mapping[str, Any] = {"name": "reschedule_task", "when": "in 3 hours"}


@pytest.fixture
def ask(scheduler: Scheduler) -> Ask:
    return asked_of(scheduler)


def answered(ask: Ask, change: Mapping[str, Any] | None, **given: Any) -> dict[str, Any]:
    made = ask("schedule_task", title="Ship", when="in 2 hours", **given)[1]
    if change is None:
        return made
    name, *rest = change.items()
    return ask(name[1], **dict(rest), task_id=made["id"])[1]


CHANGES = pytest.mark.parametrize(
    ("given", "change", "time"),
    [
        ({}, None, timedelta(seconds=30)),
        ({}, CANCEL, timedelta(seconds=30)),
        ({}, MOVE, timedelta(seconds=30)),
        ({"steps": STEPS}, None, timedelta(seconds=30)),
        ({"steps": STEPS}, CANCEL, timedelta(minutes=10)),
        ({"steps": STEPS}, MOVE, timedelta(minutes=10)),
    ],
)


@CHANGES
def test_a_token_takes_a_change_back_until_the_time_that_its_answer_says(
    scheduler: Scheduler, clock: Clock, given: Mapping[str, Any], change: Mapping[str, Any] | None, time: timedelta
) -> None:
    answer = answered(asked_of(scheduler), change, **given)
    assert answer["undo_until"] == utc(clock() + time)
    clock.at += time
    scheduler.act(answer["id"], "undo", undo=answer["undo"])


@CHANGES
def test_a_token_takes_nothing_back_after_that_time(
    scheduler: Scheduler, clock: Clock, given: Mapping[str, Any], change: Mapping[str, Any] | None, time: timedelta
) -> None:
    answer = answered(asked_of(scheduler), change, **given)
    clock.at += time + timedelta(seconds=30)
    with pytest.raises(Refused):
        scheduler.act(answer["id"], "undo", undo=answer["undo"])


def test_a_cancelled_task_that_is_read_later_has_the_time_of_its_cancel(ask: Ask, clock: Clock) -> None:
    answer = answered(ask, CANCEL)
    clock.forward(seconds=20)
    assert ask("get_task", task_id=answer["id"])[1]["undo_until"] == answer["undo_until"]


def test_a_program_reads_the_time_too(scheduler: Scheduler, clock: Clock) -> None:
    made = scheduler.schedule("Ship", when="in 2 hours")
    changed = scheduler.cancel(made.record.task.id)
    assert {made.undo_until, changed.undo_until} == {clock() + timedelta(seconds=30)}
    assert scheduler.act(made.record.task.id, "undo", undo=changed.undo).undo_until is None
    chain = scheduler.schedule("Ship", when="in 2 hours", steps=[{"name": "pack"}])
    assert scheduler.cancel(chain.record.task.id).undo_until == clock() + timedelta(minutes=10)


def test_the_token_of_a_yes_has_no_time(ask: Ask) -> None:
    made = answered(ask, None, approval=True)
    yes = ask("act_on_task", task_id=made["id"], action="approve")[1]
    assert ("undo" in yes, "undo_until" in yes) == (True, False)
    assert "undo_until" not in ask("get_task", task_id=answered(ask, None)["id"])[1]

"""Steps that wait for events, are tried again and have a zone as tasks do, and chains that an event starts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import InvalidArgument, InvalidArguments
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Wait
from duetime.scheduler.request import StepArguments
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.task import RetryPolicy, State

from tests.builders import Clock
from tests.contracts.store.databases import on_each_database
from tests.contracts.store.desk import MORNING, Desk, at

SCHEDULED, WAITING, SUCCEEDED = State.SCHEDULED, State.WAITING, State.SUCCEEDED
PAID = {"event": "paid", "match": {"order": 7}, "timeout": "2 hours"}
TWO: list[StepArguments] = [{"name": "fetch"}, {"name": "ship", "after": ["fetch"]}]
SHIP: StepArguments = {"name": "ship", "after": ["fetch"], "wait_for": PAID}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def order(desk: Desk, *steps: StepArguments, **more: Any) -> str:
    return desk.scheduler.schedule("Order", **{"when": "in 1 hour", "steps": steps or TWO, **more}).record.task.id


def states(desk: Desk, chain_id: str) -> list[State]:
    chain = desk.scheduler.get(chain_id).chain
    assert chain
    return [step.state for step in chain.steps]


def tasks(desk: Desk, chain_id: str) -> list[str]:
    return list(desk.scheduler.ends.tasks_of(chain_id))


def test_a_step_waits_for_the_steps_before_it_and_for_its_event(desk: Desk) -> None:
    chain_id = order(desk, TWO[0], SHIP)
    desk.scheduler.signals.send("paid", {"order": 8})
    desk.end(desk.start(9))
    assert states(desk, chain_id) == [SUCCEEDED, WAITING]
    assert desk.scheduler.explain(chain_id)[1] == [
        "ship: the event 'paid' with «order = 7», until Mon 23 Nov 2026 10:00 (in 1 h), then it expires"
    ]
    assert desk.scheduler.signals.send("paid", {"order": 7}).freed == 1
    assert states(desk, chain_id) == [SUCCEEDED, SCHEDULED]
    desk.end(desk.start(9, 1))
    assert states(desk, chain_id) == [SUCCEEDED, SUCCEEDED]


def test_an_event_that_comes_before_the_step_in_front_ends_is_not_missed(desk: Desk) -> None:
    chain_id = order(desk, TWO[0], SHIP)
    assert desk.scheduler.signals.send("paid", {"order": 7}).freed == 0
    assert states(desk, chain_id) == [SCHEDULED, WAITING]
    desk.end(desk.start(9))
    assert states(desk, chain_id) == [SUCCEEDED, SCHEDULED]


@pytest.mark.parametrize(("lot", "ends"), [("expire", State.EXPIRED), ("skip", State.SKIPPED), ("run", SCHEDULED)])
def test_a_step_whose_event_does_not_come_ends_or_runs_as_it_says(desk: Desk, lot: str, ends: State) -> None:
    chain_id = order(desk, TWO[0], {**SHIP, "wait_for": {**PAID, "on_timeout": lot}})
    desk.end(desk.start(9))
    desk.clock.at = at(10, 1)
    desk.store.signals.end_late(limit=9)
    assert states(desk, chain_id) == [SUCCEEDED, ends]


def test_the_event_of_a_chain_is_awaited_by_its_first_steps_alone(desk: Desk) -> None:
    chain_id = order(desk, *TWO, {"name": "look"}, wait_for=PAID)
    view = desk.scheduler.get(chain_id)
    assert view.chain
    assert {step.name: step.state for step in view.chain.steps} == dict.fromkeys(("fetch", "look", "ship"), WAITING)
    assert [reason.partition(":")[0] for reason in desk.scheduler.explain(chain_id)[1]] == ["fetch", "look"]
    assert desk.start(9) == []
    assert desk.scheduler.signals.send("paid", {"order": 7}).freed == 2
    desk.end(desk.start(9, 1))
    desk.end(desk.start(9, 2))
    assert set(states(desk, chain_id)) == {SUCCEEDED}


def test_a_chain_starts_at_its_time_or_by_the_event_that_comes_first(desk: Desk) -> None:
    early = order(desk, when="tomorrow 9:00", wait_for={"event": "paid", "or_when": True})
    assert desk.scheduler.get(early).record.run.scheduled_for == at(9) + timedelta(days=1)
    desk.clock.at = at(10)
    assert desk.scheduler.signals.send("paid").freed == 1
    desk.end(desk.start(10))
    desk.end(desk.start(10, 1))
    assert states(desk, early) == [SUCCEEDED, SUCCEEDED], "what follows does not wait for the time either"


def test_a_chain_that_an_event_may_start_is_moved_by_the_time_of_its_first_step(desk: Desk) -> None:
    chain_id = order(desk, when="tomorrow 9:00", wait_for={"event": "paid", "or_when": True})
    assert desk.scheduler.reschedule(chain_id, when="tomorrow 11:00").record.run.scheduled_for == at(11) + timedelta(1)
    assert states(desk, chain_id) == [WAITING, WAITING]
    desk.clock.at = at(11) + timedelta(days=1)
    desk.store.signals.end_late(limit=9)
    assert states(desk, chain_id) == [SCHEDULED, WAITING]


def test_a_moved_chain_that_its_event_starts_before_the_new_time_goes_on_at_once(desk: Desk) -> None:
    chain_id = order(desk, when="tomorrow 9:00", wait_for={"event": "paid", "or_when": True})
    desk.scheduler.reschedule(chain_id, when="tomorrow 11:00")
    desk.scheduler.signals.send("paid")
    desk.end(desk.start(8, 1))
    desk.end(desk.start(8, 2))
    assert states(desk, chain_id) == [SUCCEEDED, SUCCEEDED]


ONE_HOUR = timedelta(hours=1)


@on_each_database
@pytest.mark.parametrize("waits", [Wait(event="paid", timeout=ONE_HOUR), Wait(approval="Pay?", by=ONE_HOUR)])
def test_a_step_that_waits_in_its_handler_stays_and_does_not_count_when_its_chain_is_moved(
    desk: Desk, waits: Wait
) -> None:
    chain_id = order(desk, TWO[0], {**TWO[1], "when": at(14) + timedelta(days=2)})
    desk.end(desk.start(9), waits)
    moved = desk.scheduler.reschedule(chain_id, when="tomorrow 12:00")
    assert [text.partition(" (")[0] for text in moved.warnings] == ["not changed: fetch"]
    assert desk.scheduler.get(tasks(desk, chain_id)[1]).record.run.scheduled_for == at(12) + timedelta(days=1)


def test_a_step_whose_wait_in_its_handler_is_over_is_due_when_its_chain_is_moved(desk: Desk) -> None:
    chain_id = order(desk, TWO[0], {**TWO[1], "when": "today 14:00"})
    desk.end(desk.start(9), Wait(event="paid", timeout=ONE_HOUR))
    desk.clock.at = at(11)
    desk.scheduler.reschedule(chain_id, when="today 12:00")
    fetch, ship = (desk.scheduler.get(each).record.run for each in tasks(desk, chain_id))
    assert (fetch.wake_at, ship.scheduled_for) == (at(12), at(15))


def test_a_cancelled_chain_waits_for_its_event_again_after_the_undo(desk: Desk) -> None:
    chain_id = order(desk, wait_for=PAID)
    undo = desk.scheduler.cancel(chain_id).undo
    desk.scheduler.signals.send("paid", {"order": 7})
    desk.scheduler.act(chain_id, "undo", undo=undo)
    assert states(desk, chain_id) == [SCHEDULED, WAITING], "events that came since count"


def test_a_step_has_the_retries_and_the_zone_of_the_chain_or_its_own(desk: Desk) -> None:
    own: StepArguments = {"name": "ship", "retry": {"max_attempts": 2}, "timezone": "Asia/Tokyo"}
    chain_id = order(desk, TWO[0], own, retry=RetryPolicy(max_attempts=9), when="today 18:00", deadline="today 20:00")
    fetch, ship = (desk.scheduler.get(each).record for each in tasks(desk, chain_id))
    assert (fetch.task.retry.max_attempts, fetch.task.timezone) == (9, "UTC")
    assert (ship.task.retry.max_attempts, ship.task.timezone) == (2, "Asia/Tokyo")
    assert fetch.run.scheduled_for == ship.run.scheduled_for == at(18), "what it has of the chain is that instant"
    assert ship.run.deadline == at(20)
    assert desk.scheduler.get(chain_id).record.task.timezone == "UTC"
    theirs = order(desk, {**own, "when": "tomorrow 18:00"}, when="today 18:00", timezone="America/Denver")
    assert desk.scheduler.get(tasks(desk, theirs)[0]).record.run.scheduled_for == at(9) + timedelta(days=1)
    assert desk.scheduler.get(theirs).record.task.timezone == "America/Denver"


@pytest.mark.parametrize(
    ("step", "more", "said"),
    [
        (
            {"name": "a", "wait_for": {"evnt": "paid"}},
            {},
            r"steps.a.wait_for.evnt: it has no member 'evnt'; did you mean event",
        ),
        ({"name": "a", "wait_for": "paid"}, {}, r"steps\[1\].wait_for: it is of another kind"),
        (
            {"name": "a", "retry": {"max_attempts": 0}},
            {},
            r"steps\[1\].retry: .*Accepted: an object with max_attempts \(1 to 100\)",
        ),
        (
            {"name": "a", "retry": {"attempts": 3}},
            {},
            r"steps\[1\].retry: .*Accepted: an object with max_attempts \(1 to 100\)",
        ),
        ({"name": "a", "timezone": "Asia/Tokio"}, {}, r"steps.a.timezone: .*Asia/Tokyo"),
        (
            {"name": "a", "wait_for": PAID},
            {"wait_for": PAID},
            "wait_for: it would never be waited for: each first step",
        ),
    ],
)
def test_an_argument_that_a_step_cannot_have_is_refused_with_its_name(
    desk: Desk, step: Any, more: Any, said: str
) -> None:
    for dry_run in (True, False):
        with pytest.raises((InvalidArgument, InvalidArguments), match=said):
            order(desk, step, dry_run=dry_run, **more)
    assert not desk.scheduler.tasks.list().views

"""A move by a length of time, such as two hours later, counts from the time that the card shows, in every state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.views import TaskView
from duetime.widgets.payload import task_payload

from tests.builders import LEASE, Clock

MORNING = datetime(2026, 11, 23, 8, tzinfo=UTC)
LATER = timedelta(hours=2)
NEXT_ATTEMPT = timedelta(minutes=90)
DAILY = {"repeat": "every day at 9:00"}
QUESTION = {"question": "Send it?"}
STEPS: list[Any] = [{"name": "fetch"}, {"name": "load", "after": ["fetch"], "when": "10:00"}]


@dataclass
class Desk:
    """A scheduler at 08:00, and a hand that makes tasks and their attempts."""

    scheduler: Scheduler
    store: Store
    clock: Clock
    id: str = ""
    made: str = ""

    def make(self, **given: Any) -> Desk:
        made = self.scheduler.schedule("Report", **({"when": "9:00"} | given))
        self.id = self.made = made.chain.id if made.chain else made.record.task.id
        return self

    def daily(self, **given: Any) -> Desk:
        return self.make(when=None, repeat="every day at 9:00", **given)

    def at(self, time: str) -> Desk:
        hour, minute = time.split(":")
        self.clock.at = self.clock.at.replace(hour=int(hour), minute=int(minute))
        return self

    def ready(self) -> Desk:
        self.store.claims.make_ready(limit=9)
        return self

    def attempt(self, outcome: Outcome) -> Desk:
        starts = [Start(run.run_id) for run in self.at("9:00").store.claims.make_ready(limit=9)]
        [claim] = self.store.claims.start(starts, worker="w", epoch=None, lease=LEASE)
        self.store.claims.settle([settle(claim, outcome, now=self.clock(), jitter=0.0)])
        return self

    def suspend(self) -> Desk:
        return self.attempt(Wait(until=self.at("9:00").clock() + NEXT_ATTEMPT))

    def pause(self, hold: bool = True, until: str | None = None) -> Desk:
        self.scheduler.reschedule(self.id, pause=hold, pause_until=until)
        return self

    def undone_cancel(self) -> Desk:
        self.scheduler.act(self.id, "undo", undo=self.scheduler.cancel(self.id).undo)
        return self

    def to(self, when: str) -> Desk:
        self.scheduler.reschedule(self.id, when=when)
        return self

    def approved(self) -> Desk:
        self.scheduler.approve(self.scheduler.get(self.id).record.run.id)
        return self

    def step(self, place: int) -> Desk:
        chain = self.scheduler.get(self.id).chain
        assert chain
        self.id = chain.steps[place].task_id
        return self


AGAIN = Retry("no answer", after=NEXT_ATTEMPT)
STATES: dict[str, tuple[str, Callable[[Desk], Desk]]] = {
    "scheduled": ("09:00", lambda desk: desk.make()),
    "scheduled, moved": ("11:00", lambda desk: desk.make(**DAILY, when=None).to("11:00")),
    "late": ("09:00", lambda desk: desk.make().at("10:00")),
    "ready": ("09:00", lambda desk: desk.make().at("10:00").ready()),
    "back from a cancel": ("10:00", lambda desk: desk.make().at("10:00").undone_cancel()),
    "ready, back from a cancel": ("09:00", lambda desk: desk.make().at("10:00").ready().undone_cancel()),
    "resumed late": ("10:00", lambda desk: desk.make().pause().at("10:00").pause(False)),
    "retrying": ("10:30", lambda desk: desk.make().attempt(AGAIN)),
    "retrying, late": ("10:30", lambda desk: desk.make().attempt(AGAIN).at("11:00")),
    "retrying, moved": ("14:00", lambda desk: desk.make().attempt(AGAIN).to("14:00")),
    "retrying, in a series": ("10:30", lambda desk: desk.daily().attempt(AGAIN)),
    "retrying, in a chain": ("10:30", lambda desk: desk.make(steps=STEPS).attempt(AGAIN)),
    "retrying late, in a chain": ("10:30", lambda desk: desk.make(steps=STEPS).attempt(AGAIN).at("11:00")),
    "retrying, a step": ("10:30", lambda desk: desk.make(steps=STEPS).attempt(AGAIN).step(0)),
    "retrying, paused": ("10:30", lambda desk: desk.make().attempt(AGAIN).pause()),
    "retrying, paused until": ("12:30", lambda desk: desk.make().attempt(AGAIN).pause(until="12:30")),
    "ready to be tried again": ("09:00", lambda desk: desk.make().attempt(AGAIN).at("10:45").ready()),
    "suspended until a time": ("10:30", lambda desk: desk.make().suspend()),
    "suspended in a series": ("10:30", lambda desk: desk.daily().suspend()),
    "suspended in a chain": ("10:30", lambda desk: desk.make(steps=STEPS).suspend()),
    "waiting for a yes": ("09:00", lambda desk: desk.make(approval=QUESTION)),
    "waiting for a yes, late": ("09:00", lambda desk: desk.make(approval=QUESTION).at("10:00").ready()),
    "waiting for a yes, in a series": ("09:00", lambda desk: desk.daily(approval=QUESTION).at("10:00").ready()),
    "approved late, in a series": (
        "09:00",
        lambda desk: desk.daily(approval=QUESTION).at("10:00").ready().approved(),
    ),
    "waiting for an event": ("09:00", lambda desk: desk.make(wait_for={"event": "go"}).at("10:00").ready()),
    "a step behind another": ("10:00", lambda desk: desk.make(steps=STEPS).step(1)),
    "a step after another": ("10:00", lambda desk: desk.make(steps=STEPS).attempt(Done("")).step(1)),
    "a chain before its last step": ("10:00", lambda desk: desk.make(steps=STEPS).attempt(Done(""))),
    "a chain, back from a cancel": ("09:30", lambda desk: desk.make(steps=STEPS).at("9:30").undone_cancel()),
    "a chain, resumed late": ("09:30", lambda desk: desk.make(steps=STEPS).pause().at("9:30").pause(False)),
    "succeeded": ("09:00", lambda desk: desk.make().attempt(Done("")).at("10:00")),
    "failed": ("09:00", lambda desk: desk.make().attempt(Failed("no")).at("10:00")),
    "of a series that has ended": ("09:00", lambda desk: desk.daily(max_runs=1).attempt(Done("")).at("10:00")),
}


@pytest.fixture
def desk(store: Store, clock: Clock) -> Desk:
    clock.at = MORNING
    planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
    return Desk(Scheduler(store, planner), store, clock)


def test_two_hours_later_counts_from_the_time_that_the_card_shows_in_every_state(desk: Desk) -> None:
    for day, (state, (shown, made)) in enumerate(STATES.items()):
        desk.clock.at = MORNING + timedelta(days=day)
        task_id = made(desk).id
        seen = _seen(desk.scheduler.get(task_id))
        assert f"{seen:%H:%M}" == shown, state
        assert _seen(desk.scheduler.reschedule(task_id, when="2 hours later", dry_run=True)) == seen + LATER, state
        desk.scheduler.bulk.change("move", task_ids=[task_id], to="2 hours later")
        assert _seen(desk.scheduler.get(task_id)) == seen + LATER, state
        desk.scheduler.cancel(desk.made)


def test_a_snooze_in_words_counts_from_the_next_attempt_and_a_day_keeps_the_time_of_the_task(desk: Desk) -> None:
    task_id = desk.make().attempt(AGAIN).id
    assert _seen(desk.scheduler.reschedule(task_id, when="tomorrow", dry_run=True)) == datetime(
        2026, 11, 24, 9, tzinfo=UTC
    )
    snoozed = desk.scheduler.act(task_id, "snooze", until="2 hours later")
    assert _seen(snoozed) == datetime(2026, 11, 23, 12, 30, tzinfo=UTC)


def test_a_snooze_in_words_counts_from_the_extra_run_that_the_card_shows(desk: Desk) -> None:
    task_id = desk.daily().attempt(Done("")).id
    desk.scheduler.act(task_id, "snooze", minutes=180)
    desk.at("11:30")
    snoozed = desk.scheduler.act(task_id, "snooze", until="2 hours later")
    assert _extra(snoozed) == datetime(2026, 11, 23, 14, tzinfo=UTC)
    moved = desk.scheduler.act(task_id, "snooze", until="tomorrow")
    assert [run.scheduled_for for run in moved.record.side_runs] == [datetime(2026, 11, 24, 14, tzinfo=UTC)]


def _extra(view: TaskView) -> datetime:
    extra = task_payload(view).extra_run
    assert extra
    return datetime.fromisoformat(extra.when.utc)


def _seen(view: TaskView) -> datetime:
    return datetime.fromisoformat(task_payload(view).when.utc)

"""Any sequence of events, timeouts, changes, undos and runs leaves a series that waits for events as a model says.

20 walks on each database. `WAIT_WALKS=3000` asks for so many, `WALK_FIRST_SEED` for others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

import pytest
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.changes.actions import change_token, undo_change
from duetime.scheduler.intake.changes.each_wait import each_wait_step
from duetime.scheduler.outcomes import Done
from duetime.scheduler.records import Change
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.series.awaited import awaited_by_each
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.signal.signal import OnTimeout, ReceivedSignal, SignalWait
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord

from tests.builders import LEASE, NOON, TENANT, Clock, a_task

WALKS = int(os.environ.get("WAIT_WALKS", "20"))
"""Each has a store of its own, since its clock begins at noon."""

FIRST_SEED = int(os.environ.get("WALK_FIRST_SEED", "0"))
STEPS_COUNT = 60
UNDO_S = 35
"""Seconds for which an undo is taken, with those of a late click."""

WAITED, LOOKBACK, PUT_OFF = timedelta(minutes=10), timedelta(minutes=30), timedelta(minutes=7)
TICK = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
STEPS = ("look", "send", "late", "skip", "move", "ask_other", "pause", "resume", "cancel", "undo")


@dataclass
class Model:
    """The expected state of an hourly task of which each run waits for an event.

    `slot` is the time of its occurrence, `planned` the one by the rule, `due` when it is looked at. It has waited since
    it was `opened`, and is `over` when it waits no longer: by the event that it `had`, or without one. `past` are those
    of earlier runs. `left` is what the newest change has changed, at a time.
    """

    on_timeout: OnTimeout
    lookback: timedelta
    slot: datetime = NOON
    planned: datetime = NOON
    due: datetime = NOON
    state: State = State.SCHEDULED
    name: str = "go"
    over: bool = False
    had: tuple[str, datetime] | None = None
    opened: datetime | None = None
    since: datetime = NOON
    until: datetime = NOON
    paused: bool = False
    runs: int = 0
    sent: list[tuple[str, datetime]] = field(default_factory=list)
    past: list[tuple[str, datetime]] = field(default_factory=list)
    left: Model | None = None
    left_at: datetime = NOON
    moved: bool = False

    def look(self, now: datetime) -> bool:
        """Run what waits no longer, let wait what is due."""
        if self.state is not State.SCHEDULED or self.paused or self.slot > now:
            return True
        if self.over:
            self.runs, self.left = self.runs + 1, None
            self._follow(now)
            return True
        self.opened = self.opened or now
        taken = [at for name, at in [*self.past, *([self.had] if self.had else [])] if name == self.name]
        self.since = max([self.slot - self.lookback, *(at + TICK for at in taken)])
        self.until = self.opened + WAITED
        came = [at for name, at in self.sent if name == self.name and at >= self.since]
        self.state = State.SCHEDULED if came else State.WAITING
        if came:
            self.over, self.had = True, (self.name, max(came))
        return True

    def send(self, now: datetime, name: str) -> int:
        """Return how many runs go on by an event."""
        self.sent.append((name, now))
        if self.state is not State.WAITING or name != self.name:
            return 0
        self.state, self.over, self.had = State.SCHEDULED, True, (name, now)
        return 1

    def late(self, now: datetime) -> bool:
        if self.state is State.WAITING and not self.paused and self.until <= now:
            if self.on_timeout is OnTimeout.RUN:
                self.state, self.over = State.SCHEDULED, True
            else:
                self.left = None
                self._follow(now)
        return True

    def skip(self, now: datetime) -> bool:
        if self.state is State.CANCELLED:
            return False
        self._keep(now)
        self._follow(now)
        return True

    def move(self, now: datetime) -> bool:
        if self.state is State.CANCELLED:
            return False
        if (self.slot, self.opened, self.state) == (now + PUT_OFF, None, State.SCHEDULED):
            return True  # nothing changes
        self._keep(now, moved=True)
        self.slot = self.due = now + PUT_OFF
        self.opened, self.state = None, State.SCHEDULED
        return True

    def ask_other(self, now: datetime) -> bool:
        if self.state is State.CANCELLED:
            return False
        self.name, self.left = "stop" if self.name == "go" else "go", None
        if self.state is State.WAITING:
            self.state, self.opened, self.due = State.SCHEDULED, None, max(self.slot, now)
        return True

    def pause(self, _now: datetime) -> bool:
        if self.state is State.CANCELLED or self.paused:
            return False
        self.paused, self.left = True, None
        return True

    def resume(self, now: datetime) -> bool:
        if not self.paused:
            return False
        self.paused = False
        if self.state is State.CANCELLED:
            return True
        self.left = None
        if self.state is State.SCHEDULED and self.opened is None and self.due < now:
            self._follow(now)
        return True

    def cancel(self, now: datetime) -> bool:
        if self.state is State.CANCELLED:
            return False
        self._keep(now)
        self.state = State.CANCELLED
        return True

    def undo(self, now: datetime) -> bool:
        left = self.left
        if left is None or now - self.left_at > timedelta(seconds=UNDO_S):
            return False
        held = self.paused and self.state is not State.CANCELLED
        self.due = left.slot if held else max(left.slot, now)
        if self.moved:
            self.opened = left.opened or self.opened
        else:
            self.opened, self.over, self.had = left.opened, left.over, left.had
        self.slot, self.planned, self.state, self.left = left.slot, left.planned, State.SCHEDULED, None
        return True

    def _keep(self, now: datetime, *, moved: bool = False) -> None:
        self.left, self.left_at, self.moved = replace(self, left=None), now, moved

    def _follow(self, now: datetime) -> None:
        self.past += [self.had] if self.had else []
        self.slot = max(self.slot, self.planned, now).replace(minute=0, second=0) + HOUR
        self.planned, self.due, self.state = self.slot, self.slot, State.SCHEDULED
        self.over, self.had, self.opened = False, None, None


class Walk:
    """The task in a store, and the steps that may be done to it."""

    def __init__(self, store: Store, clock: Clock, model: Model) -> None:
        wait = SignalWait("go", {}, NOON - model.lookback, NOON + WAITED, model.on_timeout)
        asks = awaited_by_each(wait, NOON)
        task, run = a_task(repeat="FREQ=HOURLY;BYMINUTE=0", anchor=NOON, timezone="UTC", asks=asks)
        self.store, self.clock, self.task_id, self.model = store, clock, task.id, model
        self.runs, self.undoable, self.sent = 0, 0, 0
        store.tasks.add(task, run, actor="alice")

    def record(self) -> TaskRecord:
        return self.store.tasks.get(TENANT, self.task_id)

    def change(self, kind: EventKind, decide: Callable[[TaskRecord], Change]) -> None:
        self.undoable = self.store.tasks.change(
            TENANT, self.task_id, actor="alice", kind=kind, decide=decide
        ).task.revision

    def look(self) -> None:
        ready = [Start(run.run_id) for run in self.store.claims.make_ready(limit=9)]
        for claim in self.store.claims.start(ready, worker="w", epoch=None, lease=LEASE):
            self.store.claims.settle([settle(claim, Done("done"), now=self.clock(), jitter=0.0)])
            self.runs += 1

    def send(self, name: str) -> int:
        self.sent += 1
        return self.store.signals.send(TENANT, ReceivedSignal(name, f"e{self.sent}"), actor="bob").freed

    def late(self) -> None:
        self.store.signals.end_late(limit=9)

    def skip(self) -> None:
        self.change(EventKind.SKIPPED, partial(changes.skip_next, now=self.clock()))

    def move(self) -> None:
        decide = partial(changes.move, to=self.clock() + PUT_OFF, now=self.clock())
        self.change(EventKind.RESCHEDULED, decide)

    def ask_other(self) -> None:
        wait = {
            "event": "stop" if self.model.name == "go" else "go",
            "timeout": WAITED,
            "lookback": self.model.lookback,
        }

        def decide(record: TaskRecord) -> Change:
            if record.run.state is State.CANCELLED:
                raise Refused("it has ended")
            given = {**wait, "on_timeout": self.model.on_timeout}
            return each_wait_step(record, Change(record.task, record.run), given, self.clock())

        self.change(EventKind.RESCHEDULED, decide)
        self.undoable = 0

    def pause(self) -> None:
        self.change(EventKind.PAUSED, changes.pause)
        self.undoable = 0

    def resume(self) -> None:
        self.change(EventKind.RESUMED, partial(changes.resume, now=self.clock()))
        self.undoable = 0

    def cancel(self) -> None:
        self.change(EventKind.CANCELLED, partial(changes.cancel, now=self.clock()))

    def undo(self) -> None:
        task = self.record().task
        if self.record().run.state is State.CANCELLED:
            self.change(EventKind.CANCEL_UNDONE, partial(changes.undo_cancel, now=self.clock(), token=None))
            self.undoable = 0
        elif task.revision != self.undoable:
            raise Refused("the newest change is not what this walk takes back")
        else:
            undone = partial(undo_change, now=self.clock(), token=change_token(task))
            self.store.tasks.undo_once(TENANT, self.task_id, None, decide=undone, actor="alice")

    def check(self) -> None:
        record, model = self.record(), self.model
        assert (record.run.state, record.task.paused, self.runs) == (model.state, model.paused, model.runs)
        assert (record.run.scheduled_for, record.run.first_ready_at) == (model.slot, model.opened)
        found = self.store.signals.wait_of_run(TENANT, self.task_id, record.run.id)
        assert (found is not None and found.is_open) == (model.state is State.WAITING)
        if found and found.is_open:
            assert (found.wait.name, found.wait.since, found.wait.until) == (model.name, model.since, model.until)
        if model.over and model.state is not State.CANCELLED:
            assert found
            assert (found.signal and (found.signal.name, found.signal.at)) == model.had


def _accepted(step: Callable[[], None]) -> bool:
    try:
        step()
    except Refused:
        return False
    return True


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + WALKS))
def test_a_walk_ends_where_the_model_says(store: Store, clock: Clock, seed: int) -> None:
    draw = random.Random(seed)
    model = Model(draw.choice(list(OnTimeout)), draw.choice([timedelta(0), LOOKBACK]))
    walk = Walk(store, clock, model)
    said = [f"seed {seed}, on_timeout {model.on_timeout}, lookback {model.lookback}"]
    for _ in range(STEPS_COUNT):
        clock.forward(seconds=draw.choice([0, 1, 20, 34, 61, 700, 2900]))
        name = draw.choice([*STEPS, "look", "look", "look", "send", "undo", "undo"])
        event = draw.choice(["go", "stop", model.name])
        said.append(f"{name} {event if name == 'send' else ''} at {clock():%H:%M:%S}")
        try:
            if name == "send":
                assert walk.send(event) == model.send(clock(), event)
            else:
                assert _accepted(getattr(walk, name)) == getattr(model, name)(clock())
            walk.check()
        except AssertionError as error:
            raise AssertionError("\n".join([*said, str(error)])) from None
    assert store.integrity.examine().findings == ()

"""Any sequence of events, timeouts, answers, changes, undos and runs leaves a series that waits as a model says.

Each run waits for an event, and in every other walk for an answer as well.

14 walks on SQLite, 2 on PostgreSQL. `WAIT_WALKS=3000` asks for so many on each, `WALK_FIRST_SEED` for others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial

from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.changes.actions import change_token, undo_change
from duetime.scheduler.intake.changes.each_wait import each_wait_step
from duetime.scheduler.intake.terms.approval import asked_before_each
from duetime.scheduler.outcomes import Done
from duetime.scheduler.records import Change
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.series.occurrence_wait import awaited_by_each
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalAnswer, State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval, taken_back_by
from duetime.scheduler.waits.signal import OnTimeout, ReceivedSignal, SignalWait

from tests.builders import LEASE, NOON, TENANT, Clock, a_task
from tests.contracts.store.likely_steps import UNDO_S, Situation
from tests.contracts.store.pausable import Pausable
from tests.invariants import assert_sound
from tests.search import walks

ASKED = os.environ.get("WAIT_WALKS")
FIRST_SEED = int(os.environ.get("WALK_FIRST_SEED", "0"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(ASKED or "14"))
"""Each walk has a store of its own, since its clock begins at noon."""

SEEDS_ON_POSTGRES = SEEDS if ASKED else SEEDS[-2:]
STEPS_COUNT = 60

WAITED, LOOKBACK, PUT_OFF = timedelta(minutes=10), timedelta(minutes=30), timedelta(minutes=7)
TICK = timedelta(microseconds=1)
HOUR = timedelta(hours=1)
ASKED_FOR = timedelta(minutes=6)
STEPS = ("look", "send", "late", "skip", "move", "ask_other", "pause", "resume", "cancel", "undo")
WHILE_IT_WAITS = [*["send"] * 8, *["late", "move", "ask_other", "skip", "cancel"] * 2]
"""Steps that are likely while the current run waits."""

ANSWERS = ("approve", "approve", "reject", "expire", "take_back")


@dataclass
class Model(Pausable):
    """The expected state of an hourly task of which each run waits for an event.

    `slot` is the time of its occurrence, `planned` the one by the rule, `due` when it is looked at. It has waited since
    it was `opened`, and is `over` when it waits no longer: by the event that it `had`, or without one. `past` are those
    of earlier runs. `left` is what the newest change has changed, at a time. Where it `asks` as well, its question was
    asked at a time and `ends` at another; its wait has `begun` with it.
    """

    on_timeout: OnTimeout
    lookback: timedelta
    asks: bool = False
    default: ApprovalAnswer = ApprovalAnswer.REJECT
    approved: bool = False
    asked: datetime = NOON
    ends: datetime = NOON
    begun: bool = False
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
        if self.over and self.is_answered:
            self.runs, self.left = self.runs + 1, None
            self._follow(now)
            return True
        in_this_wait = self.opened is not None and self.asked >= self.opened
        self.opened = self.opened or now
        if not self.over:
            self._begin()
        if (not self.is_answered and not in_this_wait) or (not self.is_answered and self.ends <= now):
            self.asked, self.ends = now, now + ASKED_FOR
        self._judge()
        return True

    @property
    def is_answered(self) -> bool:
        return self.approved or not self.asks

    def _judge(self) -> None:
        waits = not self.is_answered or (self.begun and not self.over)
        self.state = State.WAITING if waits else State.SCHEDULED

    def _begin(self) -> None:
        """Wait from the moment it was opened; an event may have come before."""
        assert self.opened
        taken = [at for name, at in [*self.past, *([self.had] if self.had else [])] if name == self.name]
        self.since = max([self.slot - self.lookback, *(at + TICK for at in taken)])
        self.until = self.opened + WAITED
        came = [at for name, at in self.sent if name == self.name and at >= self.since]
        self.begun = True
        if came:
            self.over, self.had = True, (self.name, max(came))

    def send(self, now: datetime, name: str) -> int:
        """Return how many runs go on by an event."""
        self.sent.append((name, now))
        if not self.is_awaited or name != self.name:
            return 0
        self.over, self.had = True, (name, now)
        self._judge()
        return int(self.state is State.SCHEDULED)

    @property
    def is_awaited(self) -> bool:
        return self.state is State.WAITING and self.begun and not self.over

    @property
    def is_asked(self) -> bool:
        return self.state is State.WAITING and not self.is_answered

    def approve(self, now: datetime) -> bool:
        if not self.is_asked:
            return False
        self.approved, self.due = True, max(self.slot, now)
        self._judge()
        return True

    def reject(self, now: datetime) -> bool:
        return self.is_asked and self.skip(now)

    def expire(self, now: datetime) -> bool:
        if self.is_asked and not self.paused and self.ends <= now:
            _ = self.approve(now) if self.default is ApprovalAnswer.APPROVE else self.skip(now)
        return True

    def take_back(self, now: datetime) -> bool:
        if not self.approved or self.state is State.CANCELLED:
            return False
        if self.ends <= now:
            self.asked, self.ends = now, now + ASKED_FOR
        self.approved, self.state = False, State.WAITING
        return True

    def late(self, now: datetime) -> bool:
        if self.is_awaited and not self.paused and self.until <= now:
            if self.on_timeout is OnTimeout.RUN:
                self.over = True
                self._judge()
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
        stays = self.state is State.SCHEDULED and self.opened in {None, self.slot}
        if stays and self.slot == now + PUT_OFF:
            return True  # nothing changes
        self._keep(now, moved=True)
        self.slot = self.due = now + PUT_OFF
        let_go = self.state is State.SCHEDULED and self.opened is not None
        self.opened, self.state, self.begun = self.slot if let_go else None, State.SCHEDULED, False
        return True

    def ask_other(self, now: datetime) -> bool:
        if self.state is State.CANCELLED:
            return False
        self.name, self.left = "stop" if self.name == "go" else "go", None
        if self.state is State.WAITING:
            self.state, self.opened, self.begun, self.due = State.SCHEDULED, None, False, max(self.slot, now)
        return True

    def next_hour(self, now: datetime) -> datetime:
        """Return when the next occurrence comes."""
        return max(self.slot, self.planned, now).replace(minute=0, second=0) + HOUR

    def missed(self, now: datetime) -> bool:
        return self.state is State.SCHEDULED and self.opened is None and self.due < now

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
            self.approved, self.asked, self.ends = left.approved, left.asked, left.ends
        self.begun = False
        self.slot, self.planned, self.state, self.left = left.slot, left.planned, State.SCHEDULED, None
        return True

    def _keep(self, now: datetime, *, moved: bool = False) -> None:
        self.left, self.left_at, self.moved = replace(self, left=None), now, moved

    def _follow(self, now: datetime) -> None:
        self.past += [self.had] if self.had else []
        self.slot = self.next_hour(now)
        self.planned, self.due, self.state = self.slot, self.slot, State.SCHEDULED
        self.over, self.had, self.opened, self.approved, self.begun = False, None, None, False, False


class Walk:
    """The task in a store, and the steps that may be done to it."""

    def __init__(self, store: Store, clock: Clock, model: Model) -> None:
        wait = SignalWait("go", {}, NOON - model.lookback, NOON + WAITED, model.on_timeout)
        question = Approval("", 0, "Go?", model.default, NOON, NOON + ASKED_FOR)
        asks = awaited_by_each(wait, NOON) | (asked_before_each(question) if model.asks else {})
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

    def approve(self) -> None:
        self._answer(ApprovalAnswer.APPROVE)

    def reject(self) -> None:
        self._answer(ApprovalAnswer.REJECT)

    def _answer(self, answer: ApprovalAnswer) -> None:
        if not self.questions():
            raise Refused("a second click is not what this walk is about")
        self._leaving_out(partial(self.store.approvals.answer, TENANT, self.task_id, answer, actor="bob"))

    def expire(self) -> None:
        self._leaving_out(partial(self.store.approvals.expire, limit=9))

    def _leaving_out(self, step: Callable[[], object]) -> None:
        before = self.record().task.revision
        step()
        if self.record().task.revision > before:
            self.undoable = self.record().task.revision

    def take_back(self) -> None:
        run_id = self.record().run.id
        answered = self.store.approvals.approved(TENANT, [run_id])
        if run_id not in answered:
            raise Refused("nothing was approved")
        self.store.approvals.take_back(TENANT, [self.task_id], taken_back_by(answered[run_id]), None, actor="bob")

    def questions(self) -> list[Approval]:
        found = list(self.store.approvals.open_of(TENANT, [self.record().run.id]).values())
        unread = self.store.inbox.unread(TENANT, "alice", of=self.task_id, limit=STEPS_COUNT)
        assert len([each for each in unread if each.state is State.WAITING]) == len(found)
        return found

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
        assert (found is not None and found.is_open) == model.is_awaited
        assert [each.ends_at for each in self.questions()] == ([model.ends] if model.is_asked else [])
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


@walks(SEEDS, SEEDS_ON_POSTGRES)
def test_a_walk_ends_where_the_model_says(store: Store, clock: Clock, seed: int) -> None:
    draw = random.Random(seed)
    model = Model(draw.choice(list(OnTimeout)), draw.choice([timedelta(0), LOOKBACK]), asks=seed % 2 == 1)
    model.default = draw.choice(list(ApprovalAnswer))
    walk = Walk(store, clock, model)
    said = [f"seed {seed}, on_timeout {model.on_timeout}, lookback {model.lookback}, asks {model.asks}"]
    steps = [*STEPS, "send", *(ANSWERS if model.asks else ())]
    for _ in range(STEPS_COUNT):
        waited_until = model.until if model.is_awaited else None
        here = Situation(model.state, model.due, model.left_at if model.left else None, waited_until, model.over)
        clock.forward(seconds=here.seconds(draw, clock()))
        name = draw.choice([*steps, *here.names(clock(), WHILE_IT_WAITS)])
        if name == "move" and clock() + PUT_OFF >= model.next_hour(clock()):
            name = "look"  # a move past the next occurrence is not what this walk is about
        event = draw.choice(["go", "stop", *[model.name] * 4])
        said.append(f"{name} {event if name == 'send' else ''} at {clock():%H:%M:%S}")
        try:
            if name == "send":
                assert walk.send(event) == model.send(clock(), event)
            else:
                assert _accepted(getattr(walk, name)) == getattr(model, name)(clock())
            walk.check()
        except AssertionError as error:
            raise AssertionError("\n".join([*said, str(error)])) from None
    assert_sound(store)

"""Any sequence of answers, deadlines, cancels, undos and runs leaves an approval as a small model says.

A second model is of a series, which asks before each run: its occurrence, its pauses, and what an undo brings back.

27 walks: 25 with one store on SQLite, 2 on PostgreSQL. `APPROVAL_WALKS=3000` asks for so many on each database,
`WALK_FIRST_SEED` for others. The first seed with a store is part of each test's name, and a difference names its own.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import pytest
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.intake.changes.actions import change_token, undo_change
from duetime.scheduler.outcomes import Done
from duetime.scheduler.records import Change
from duetime.scheduler.rules import changes
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Start
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalAnswer, State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.waits.approval import Approval

from tests.builders import LEASE, NOON, TENANT, Clock, a_task, message, restarted, settlement
from tests.contracts.store.likely_steps import UNDO_S, Situation
from tests.contracts.store.pausable import Pausable
from tests.invariants import assert_sound

APPROVE, REJECT = ApprovalAnswer
ASKED = os.environ.get("APPROVAL_WALKS")
WALK_COUNT = int(ASKED or "25")
FIRST_SEED = int(os.environ.get("WALK_FIRST_SEED", "0"))
STEPS_COUNT, STORE_WALK_COUNT = 40, 25
WALKS_ON_POSTGRES = STORE_WALK_COUNT if ASKED else 2
SERIES_WALK_COUNT = int(ASKED or "3")
"""Each has a store of its own, since its clock begins at noon."""


@dataclass
class Model:
    """The expected state of one task whose run waits for approval."""

    default: ApprovalAnswer
    asked: datetime
    ends: datetime
    state: State = State.WAITING
    answer: ApprovalAnswer | None = None
    cancelled: datetime | None = None

    def ask(self, now: datetime) -> None:
        self.state, self.answer = State.WAITING, None
        if self.ends <= now:  # else it is open until its end, which is no shorter question
            self.asked, self.ends = now, now + (self.ends - self.asked)

    def give(self, answer: ApprovalAnswer, now: datetime) -> bool:
        """Answer; return whether that is accepted."""
        if self.state is not State.WAITING:
            return self.answer is answer
        self.answer = answer
        self.state = State.SCHEDULED if answer is APPROVE else State.CANCELLED
        self.cancelled = now if answer is REJECT else None
        return True

    def cancel(self, now: datetime) -> bool:
        if self.state not in (State.WAITING, State.SCHEDULED):
            return False
        self.state, self.cancelled = State.CANCELLED, now
        return True

    def undo(self, now: datetime) -> bool:
        if self.state is not State.CANCELLED or self.cancelled is None:
            return False
        if now - self.cancelled > timedelta(seconds=UNDO_S):
            return False
        if self.answer is APPROVE:
            self.state = State.SCHEDULED
        else:
            self.ask(now)
        return True

    def expire(self, now: datetime) -> bool:
        if self.state is State.WAITING and self.ends <= now:
            self.give(self.default, now)
        return True

    def finish(self, _now: datetime) -> bool:
        self.state = State.SUCCEEDED if self.state is State.SCHEDULED else self.state
        return True

    def run(self, now: datetime) -> bool:
        if self.state is State.SUCCEEDED:
            self.ask(now)
            return True
        return self.state is State.SCHEDULED


class Walk:
    """One task in a store, and the steps that may be done to it."""

    def __init__(self, store: Store, clock: Clock, default: ApprovalAnswer) -> None:
        task, run = a_task(clock())
        self.store, self.clock, self.task_id = store, clock, task.id
        approval = Approval(run.id, 0, "Go?", default, clock(), clock() + timedelta(minutes=1))
        waiting = replace(run, state=State.WAITING, wake_at=None)
        store.tasks.add(task, waiting, actor="alice", approval=approval)

    def record(self) -> TaskRecord:
        return self.store.tasks.get(TENANT, self.task_id)

    def give(self, answer: ApprovalAnswer) -> None:
        self.store.approvals.answer(TENANT, self.task_id, answer, actor="bob")

    def change(self, kind: EventKind, decide: Callable[[TaskRecord], Change]) -> None:
        self.store.tasks.change(TENANT, self.task_id, actor="alice", kind=kind, decide=decide)

    def cancel(self) -> None:
        self.change(EventKind.CANCELLED, partial(changes.cancel, now=self.clock()))

    def undo(self) -> None:
        self.change(EventKind.CANCEL_UNDONE, partial(changes.undo_cancel, now=self.clock(), token=None))

    def run(self) -> None:
        self.change(EventKind.RUN_NOW, partial(changes.run_now, now=self.clock()))

    def expire(self) -> None:
        self.store.approvals.expire(limit=STORE_WALK_COUNT)

    def finish(self) -> None:
        if self.record().run.state is State.SCHEDULED:
            claim = restarted(self.store, self.record())
            self.store.claims.settle([settlement(claim, inbox=message(claim, created_at=self.clock()))])

    def asks(self, run_id: str) -> bool:
        unread = self.store.inbox.unread(TENANT, "alice", of=self.task_id, limit=STEPS_COUNT)
        told = [each for each in unread if each.state is State.WAITING]
        is_open = bool(self.store.approvals.open_of(TENANT, [run_id]))
        assert is_open == bool(told), "the inbox has the question as long as it is open"
        return is_open


def _accepted(step: Callable[[], None]) -> bool:
    try:
        step()
    except (Refused, InvalidArgument):
        return False
    return True


@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + WALK_COUNT, STORE_WALK_COUNT))
def test_a_walk_ends_where_the_model_says(url: str, store: Store, clock: Clock, first: int) -> None:
    most = STORE_WALK_COUNT if url.startswith("sqlite") else WALKS_ON_POSTGRES
    for seed in range(first, min(first + most, FIRST_SEED + WALK_COUNT)):
        _walk(store, clock, seed)
    assert_sound(store)


def _walk(store: Store, clock: Clock, seed: int) -> None:
    draw = random.Random(seed)
    default, now = draw.choice([APPROVE, REJECT]), clock()
    walk, model = Walk(store, clock, default), Model(default, now, now + timedelta(minutes=1))
    steps: dict[str, tuple[Callable[[], None], Callable[[datetime], bool]]] = {
        "approve": (partial(walk.give, APPROVE), partial(model.give, APPROVE)),
        "reject": (partial(walk.give, REJECT), partial(model.give, REJECT)),
        **{name: (getattr(walk, name), getattr(model, name)) for name in ("cancel", "undo", "expire", "finish", "run")},
    }
    said = [f"seed {seed}"]
    for _ in range(STEPS_COUNT):
        clock.forward(seconds=draw.choice([0, 1, 20, 34, 61]))
        name = draw.choice(list(steps))
        said.append(f"{name} at {clock():%H:%M:%S}")
        do, expected = steps[name]
        assert _accepted(do) == expected(clock()), said
        run = walk.record().run
        assert (run.state, walk.asks(run.id)) == (model.state, model.state is State.WAITING), said


WHILE_ASKED = ["move", "skip", "cancel", "reject", "approve", "expire", "pause"] * 2
"""Steps that are likely while a question is open."""

ASKED_FOR, MOVED_BY = timedelta(minutes=10), timedelta(seconds=20)


def moved_to(now: datetime) -> datetime:
    """Return where a move goes: to now, or soon after."""
    return now + MOVED_BY * (now.second % 2)


@dataclass
class SeriesModel(Pausable):
    """The expected state of an hourly task that asks before each run: at a time, in the `slot` of its occurrence.

    `left` is what a cancel, a skip or a no has left out, or a move has changed, at a time. A run that was approved
    when it was asked for is `let_go`: neither a move nor a pause leaves it out. A run that was moved and `asked_there`
    has another question than the one that was `opened` at its own time. A run that came `back_at` a time after a cancel
    is due since then.
    """

    default: ApprovalAnswer
    slot: datetime = NOON
    time: datetime = NOON
    state: State = State.SCHEDULED
    approved: bool = False
    let_go: bool = False
    paused: bool = False
    opened: datetime = NOON
    ends: datetime = NOON
    asked_there: bool = False
    runs: int = 0
    left: SeriesModel | None = None
    left_at: datetime = NOON
    back_at: datetime = NOON

    def look(self, now: datetime) -> bool:
        """Run what is approved, ask for what is due."""
        if self.state is State.SCHEDULED and not self.paused and self.time <= now:
            if self.approved:
                self.runs, self.left = self.runs + 1, None
                self._follow(now)
            else:
                self.state, self.opened, self.ends, self.asked_there = State.WAITING, now, now + ASKED_FOR, True
        return True

    def approve(self, _now: datetime) -> bool:
        asked = self.state is State.WAITING
        if asked:
            self.state, self.approved, self.let_go = State.SCHEDULED, True, True
        return asked or self.approved

    def reject(self, now: datetime) -> bool:
        return self.state is State.WAITING and self._leave_out(now)

    def skip(self, now: datetime) -> bool:
        return self.state is not State.CANCELLED and self._leave_out(now)

    def move(self, now: datetime) -> bool:
        """Move it: a question is withdrawn, a yes stays. It cannot move to where it is."""
        to = moved_to(now)
        if self.state is State.CANCELLED or to == self.time or to >= self._next(now):
            return False
        self.left, self.left_at, self.time, self.state = replace(self, left=None), now, to, State.SCHEDULED
        self.asked_there = False
        return True

    def expire(self, now: datetime) -> bool:
        if self.state is State.WAITING and not self.paused and self.ends <= now:
            _ = self.approve(now) if self.default is APPROVE else self._leave_out(now)
        return True

    def missed(self, now: datetime) -> bool:
        return self.state is State.SCHEDULED and not self.let_go and max(self.time, self.back_at) < now

    def cancel(self, now: datetime) -> bool:
        if self.state is State.CANCELLED:
            return False
        self.left, self.left_at, self.state = replace(self, left=None), now, State.CANCELLED
        return True

    def undo(self, now: datetime) -> bool:
        left = self.left
        if left is None or now - self.left_at > timedelta(seconds=UNDO_S):
            return False
        moved = left.slot == self.slot and self.state is not State.CANCELLED
        self.back_at = now if self.state is State.CANCELLED else self.back_at
        asked = self.state is State.WAITING and not moved  # another question is open: it is about this occurrence now
        ends = left.opened + ASKED_FOR if moved and self.asked_there else left.ends
        self.slot, self.time, self.opened, self.left = left.slot, left.time, left.opened, None
        if moved and left.state is State.SCHEDULED and self.state is State.SCHEDULED:
            self.let_go = left.let_go  # a yes stays
            return True
        if not asked:
            self.state, self.approved, self.let_go = left.state, left.approved, left.let_go
            self.ends = ends if ends > now else now + ASKED_FOR
        return True

    def _leave_out(self, now: datetime) -> bool:
        self.left, self.left_at = replace(self, left=None), now
        self._follow(now)
        return True

    def _follow(self, now: datetime) -> None:
        self.slot = self.time = self._next(now)
        self.state, self.approved, self.let_go = State.SCHEDULED, False, False

    def _next(self, now: datetime) -> datetime:
        return max(self.slot, self.time, now).replace(minute=0, second=0) + timedelta(hours=1)


class SeriesWalk(Walk):
    """An hourly task in a store that asks before each run, and the steps that may be done to it."""

    def __init__(self, store: Store, clock: Clock, default: ApprovalAnswer) -> None:
        asks = {"question": "Go?", "default": default.value, "seconds": ASKED_FOR.total_seconds()}
        task, run = a_task(repeat="FREQ=HOURLY;BYMINUTE=0", anchor=NOON, timezone="UTC", asks=asks)
        self.store, self.clock, self.task_id, self.runs, self.left_at = store, clock, task.id, 0, 0
        store.tasks.add(task, run, actor="alice")

    def look(self) -> None:
        ready = [Start(run.run_id) for run in self.store.claims.make_ready(limit=9)]
        for claim in self.store.claims.start(ready, worker="w", epoch=None, lease=LEASE):
            self.store.claims.settle([settle(claim, Done("done"), now=self.clock(), jitter=0.0)])
            self.store.inbox.mark_read(TENANT, "alice", task_id=self.task_id)
            self.runs += 1

    def approve(self) -> None:
        run_id = self.record().run.id
        if not (self.store.approvals.open_of(TENANT, [run_id]) or self.store.approvals.approved(TENANT, [run_id])):
            raise Refused("a second click is not what this walk is about")
        self.give(APPROVE)

    def reject(self) -> None:
        run_id = self.record().run.id
        if not self.store.approvals.open_of(TENANT, [run_id]):
            raise Refused("a second click is not what this walk is about")
        self._leaving_out(partial(self.give, REJECT))

    def expire(self) -> None:
        self._leaving_out(super().expire)

    def skip(self) -> None:
        decide = partial(changes.skip_next, now=self.clock())
        self._leaving_out(partial(self.change, EventKind.SKIPPED, decide))

    def move(self) -> None:
        to = moved_to(self.clock())
        if to == self.record().run.scheduled_for:
            raise Refused("a move to where it is changes nothing")
        self._leaving_out(partial(self.change, EventKind.RESCHEDULED, partial(changes.move, to=to, now=self.clock())))

    def pause(self) -> None:
        self.change(EventKind.PAUSED, changes.pause)

    def resume(self) -> None:
        self.change(EventKind.RESUMED, partial(changes.resume, now=self.clock()))

    def undo(self) -> None:
        task = self.record().task
        if self.record().run.state is State.CANCELLED:
            super().undo()
        elif task.revision != self.left_at:
            raise Refused("the newest change left nothing out")
        else:
            undone = partial(undo_change, now=self.clock(), token=change_token(task))
            self.store.tasks.undo_once(TENANT, self.task_id, None, decide=undone, actor="alice")

    def _leaving_out(self, step: Callable[[], None]) -> None:
        before = self.record().task.revision
        step()
        self.left_at = self.record().task.revision if self.record().task.revision > before else self.left_at

    def check(self, model: SeriesModel) -> None:
        record = self.record()
        assert (record.run.state, record.task.paused, self.runs) == (model.state, model.paused, model.runs)
        assert record.run.scheduled_for == model.time
        assert self.asks(record.run.id) == (model.state is State.WAITING)
        if model.state is State.WAITING:
            [approval] = self.store.approvals.open_of(TENANT, [record.run.id]).values()
            assert approval.ends_at == model.ends


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SERIES_WALK_COUNT))
def test_a_walk_of_a_series_ends_where_the_model_says(store: Store, clock: Clock, seed: int) -> None:
    draw = random.Random(seed)
    default = draw.choice([APPROVE, REJECT])
    walk, model = SeriesWalk(store, clock, default), SeriesModel(default)
    names = ("look", "approve", "reject", "skip", "move", "expire", "pause", "resume", "cancel", "undo")
    said = list[str]()
    for _ in range(STEPS_COUNT):
        asked_until = model.ends if model.state is State.WAITING else None
        here = Situation(model.state, model.time, model.left_at if model.left else None, asked_until)
        clock.forward(seconds=here.seconds(draw, clock()))
        name = draw.choice([*names, *here.names(clock(), WHILE_ASKED, ["expire"])])
        said.append(f"{name} at {clock():%H:%M:%S}")
        assert _accepted(getattr(walk, name)) == getattr(model, name)(clock()), said
        try:
            walk.check(model)
        except AssertionError as error:
            raise AssertionError(f"{said}: {error}") from None
    assert_sound(store)

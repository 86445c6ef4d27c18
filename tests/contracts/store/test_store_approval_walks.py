"""Any sequence of answers, deadlines, cancels, undos and runs leaves an approval as a small model says.

`APPROVAL_WALKS=3000` asks for more walks, `WALK_FIRST_SEED` for others. The seed is part of each test's name.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

import pytest
from duetime.scheduler.approvals.approval import Approval
from duetime.scheduler.errors import Refused
from duetime.scheduler.events import EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules import changes
from duetime.scheduler.store import Store
from duetime.scheduler.task import ApprovalAnswer, State
from duetime.scheduler.views import TaskRecord

from tests.builders import NOON, TENANT, Clock, a_task, message, restarted, settlement

APPROVE, REJECT = ApprovalAnswer
WALKS = int(os.environ.get("APPROVAL_WALKS", "6"))
FIRST_SEED = int(os.environ.get("WALK_FIRST_SEED", "0"))
STEPS_COUNT = 40
UNDO_S = 35
"""Seconds for which an undo is taken, with those of a late click."""


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
        span = self.ends - self.asked
        self.state, self.answer, self.asked = State.WAITING, None, now
        self.ends = self.ends if self.ends > now else now + span

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
        task, run = a_task()
        self.store, self.clock, self.task_id = store, clock, task.id
        approval = Approval(run.id, 0, "Go?", default, NOON, NOON + timedelta(minutes=1))
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
        self.store.approvals.expire(limit=9)

    def finish(self) -> None:
        if self.record().run.state is State.SCHEDULED:
            claim = restarted(self.store, self.record())
            self.store.claims.settle([settlement(claim, inbox=message(claim, created_at=self.clock()))])

    def asks(self) -> bool:
        run_id = self.record().run.id
        told = [each for each in self.store.inbox.unread(TENANT, "alice") if each.state is State.WAITING]
        is_open = bool(self.store.approvals.open_of(TENANT, [run_id]))
        assert is_open == bool(told), "the inbox has the question as long as it is open"
        return is_open


def _accepted(step: Callable[[], None]) -> bool:
    try:
        step()
    except Refused:
        return False
    return True


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + WALKS))
def test_a_walk_ends_where_the_model_says(store: Store, clock: Clock, seed: int) -> None:
    draw = random.Random(seed)
    default = draw.choice([APPROVE, REJECT])
    walk, model = Walk(store, clock, default), Model(default, NOON, NOON + timedelta(minutes=1))
    steps: dict[str, tuple[Callable[[], None], Callable[[datetime], bool]]] = {
        "approve": (partial(walk.give, APPROVE), partial(model.give, APPROVE)),
        "reject": (partial(walk.give, REJECT), partial(model.give, REJECT)),
        **{name: (getattr(walk, name), getattr(model, name)) for name in ("cancel", "undo", "expire", "finish", "run")},
    }
    said: list[str] = []
    for _ in range(STEPS_COUNT):
        clock.forward(seconds=draw.choice([0, 1, 20, 34, 61]))
        name = draw.choice(list(steps))
        said.append(f"{name} at {clock():%H:%M:%S}")
        do, expected = steps[name]
        assert _accepted(do) == expected(clock()), said
        assert (walk.record().run.state, walk.asks()) == (model.state, model.state is State.WAITING), said
    assert store.integrity.examine().findings == ()

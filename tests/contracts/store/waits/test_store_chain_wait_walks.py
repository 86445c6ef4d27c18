"""Any sequence of events, answers, timeouts, ends, cancels and undos leaves a chain whose steps wait as a model says.

Its steps ask, wait for an event, do both or neither; half of the chains recur. 6 walks on SQLite, 2 on
PostgreSQL. `CHAIN_WAIT_WALKS=3000` asks for so many on each, `WALK_FIRST_SEED` for others.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from duetime.scheduler.handlers import Handlers
from duetime.scheduler.intake.planner import Planner
from duetime.scheduler.outcomes import Done, Failed
from duetime.scheduler.request import StepArguments
from duetime.scheduler.rules.settlement import settle
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.service.scheduler import Scheduler
from duetime.scheduler.store import Store
from duetime.scheduler.store.schema.tables.signals import signal_waits
from duetime.scheduler.views import TaskView
from sqlalchemy import select

from tests.builders import LEASE, Clock
from tests.invariants import assert_sound
from tests.search import walks

ASKED = os.environ.get("CHAIN_WAIT_WALKS")
FIRST_SEED = int(os.environ.get("WALK_FIRST_SEED", "0"))
SEEDS = range(FIRST_SEED, FIRST_SEED + int(ASKED or "6"))
SEEDS_ON_POSTGRES = SEEDS if ASKED else SEEDS[:2]
STEPS_COUNT = 60
MINUTE = timedelta(minutes=1)
SPANS = (0 * MINUTE, MINUTE, 10 * MINUTE, 40 * MINUTE, 130 * MINUTE)
TICK = timedelta(microseconds=1)
ENDED = frozenset({"succeeded", "failed", "cancelled", "skipped", "expired"})
OPERATIONS = (
    *["forward"] * 5,
    *["look"] * 5,
    *["send"] * 4,
    *["yes"] * 3,
    *["late"] * 2,
    *["expire"] * 2,
    *["no", "undone_cancel", "undone_yes", "undone_cancel_of_all"],
)
RARE = ("cancel",)


@dataclass(eq=False)
class Step:
    """A step: what it comes `after`, and what follows from failures; what it asks and waits for, each with a span.

    `asked` and `awaited` are until when it does so now. `yes` and `over` hold once it has both. `ends` are those of the
    steps that it comes after.
    """

    name: str
    after: Sequence[Step]
    policy: str = "fail"
    ask_span: timedelta | None = None
    default: str = "reject"
    wait_span: timedelta | None = None
    on_timeout: str = "expire"
    state: str = "scheduled"
    at: datetime | None = None
    asked: datetime | None = None
    awaited: datetime | None = None
    yes: bool = False
    over: bool = False
    begun: bool = False
    had: datetime | None = None
    task_id: str = ""
    ends: list[tuple[datetime, str, str]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self.state not in ENDED

    @property
    def lacks(self) -> bool:
        return (self.ask_span is not None and not self.yes) or (self.wait_span is not None and not self.over)

    @property
    def times(self) -> tuple[datetime | None, datetime | None]:
        """Return until when it asks and waits."""
        return (self.asked, self.awaited) if self.is_open else (None, None)

    def begin(self, now: datetime) -> None:
        """Ask and wait from now on."""
        self.begun = True
        self.asked = now + self.ask_span if self.ask_span else None
        self.awaited = now + self.wait_span if self.wait_span else None

    def follow(self) -> str | None:
        """Return how it ends by what it comes after, None where it does not."""
        bad = [how for _, _, how in sorted(self.ends) if how != "succeeded"]
        if not bad or self.policy == "run_anyway":
            return None
        inherited = bad[0] if bad[0] in {"cancelled", "skipped"} else "failed"
        return "skipped" if self.policy == "skip" else inherited


@dataclass
class Model:
    """The expected state of a chain; `due` is the time of its generation."""

    steps: Sequence[Step]
    recurs: bool
    due: datetime
    sent: list[tuple[str, datetime]] = field(default_factory=list)
    renewed: bool = False

    def schedule(self, now: datetime) -> None:
        for step in self.steps:
            step.at = self.due
            if not self.recurs:
                step.begin(now)
            step.state = "waiting" if step.after or step.times != (None, None) else "scheduled"

    def look(self, now: datetime) -> list[Step]:
        """Return the steps that start; of a chain that recurs those begin to wait whose turn has come."""
        due = [step for step in self.steps if step.state == "scheduled" and step.at and step.at <= now]
        begin = [step for step in due if self.recurs and step.lacks]
        for step in begin:
            step.begin(now)
            step.state = "waiting"
            came = [at for name, at in self.sent if name == step.name and at >= self.due]
            came = [at for at in came if step.had is None or at > step.had]
            if step.awaited and came:
                step.awaited, step.over, step.had = None, True, max(came)
            self._judge([step], now)
        return [step for step in due if step not in begin]

    def end(self, ends: Mapping[Step, str], now: datetime) -> None:
        """End steps together, then what does not run by that, and what does not run by those."""
        for step, how in ends.items():
            step.state = how
        ended = list(ends)
        while ended:
            touched = [each for each in self.steps if not set(ended).isdisjoint(each.after)]
            for each in touched:
                each.ends += [(now, above.task_id, above.state) for above in each.after if above in ended]
            ended = self._judge(touched, now)
        self._renew()

    def send(self, name: str, now: datetime) -> int:
        """Return how many steps go on by this event."""
        self.sent.append((name, now))
        step = next(step for step in self.steps if step.name == name)
        if not step.is_open or step.awaited is None:
            return 0
        step.awaited, step.over, step.had = None, True, now
        self._judge([step], now)
        return int(step.state == "scheduled")

    def yes(self, step: Step, now: datetime) -> None:
        step.asked, step.yes = None, True
        self._judge([step], now)

    def no(self, step: Step, now: datetime) -> None:
        self.end({step: "skipped" if self.recurs else "cancelled"}, now)

    def late(self, now: datetime) -> None:
        late = [step for step in self.steps if step.is_open and step.awaited and step.awaited <= now]
        for step in late:
            step.awaited, step.over = None, True
        self._judge([step for step in late if step.on_timeout == "run"], now)
        ends = {"skip": "skipped", "expire": "expired"}
        self.end({step: ends[step.on_timeout] for step in late if step.on_timeout in ends}, now)

    def expire(self, now: datetime) -> None:
        asking = [step for step in self.steps if step.is_open and step.asked and step.asked <= now]
        for step in sorted(asking, key=lambda step: step.asked or now):
            if step.is_open:
                decide = self.yes if step.default == "approve" else self.no
                decide(step, now)

    def _judge(self, touched: Iterable[Step], now: datetime) -> list[Step]:
        """Let steps go that wait for nothing more; return those that end with what they came after."""
        ended = []
        for step in [step for step in touched if step.state == "waiting"]:
            bad = step.follow()
            if bad:
                step.state = bad
                ended.append(step)
            elif len(step.ends) == len(step.after) and not (step.begun and step.lacks):
                step.state, step.at = "scheduled", max(step.at or now, now)
        return ended

    def _renew(self) -> None:
        """Begin the next generation; its time is that of the rule, which the walk reads."""
        if not self.recurs or any(step.is_open or step.state == "cancelled" for step in self.steps):
            return
        self.renewed = True
        for step in self.steps:
            step.state = "waiting" if step.after else "scheduled"
            step.asked = step.awaited = None
            step.yes = step.over = step.begun = False
            step.ends = []


class Walk:
    """The chain in a store, and what may be done to its steps."""

    def __init__(self, store: Store, clock: Clock, draw: random.Random) -> None:
        planner = Planner(Handlers.load(entry_points=False), "UTC", upstreams=store.dependencies.known)
        self.scheduler, self.store, self.clock, self.draw = Scheduler(store, planner), store, clock, draw
        recurs = draw.random() < 0.5
        self.model = Model(self._steps(), recurs, clock() + 60 * MINUTE)
        rule: dict[str, Any] = {"repeat": "every 2 hours", "when": self.model.due} if recurs else {}
        arguments = [_arguments(step) for step in self.model.steps]
        view = self.scheduler.schedule("Report", steps=arguments, **rule or {"when": self.model.due})
        self.model.schedule(clock())
        self.chain_id, self.sent = view.record.task.id, 0
        self.ids = {step.name: step.task_id for step in self._shown(view)}
        for step in self.model.steps:
            step.task_id = self.ids[step.name]
        self.said = [f"schedule {arguments} {rule}"]

    def _steps(self) -> list[Step]:
        steps, draw = list[Step](), self.draw
        for number in range(draw.randint(2, 5)):
            above = draw.sample(steps, min(len(steps), draw.choice([0, 1, 1, 2])))
            step = Step(f"s{number}", above, draw.choice(["fail", "skip", "run_anyway"]))
            if draw.random() < 0.7:  # no two of them end at once
                step.ask_span = draw.choice([30, 150, 400]) * MINUTE + number * MINUTE / 60
                step.default = draw.choice(["approve", "reject"])
            if draw.random() < 0.7:
                step.wait_span = draw.choice([30, 150, 400]) * MINUTE + (10 + number) * MINUTE / 60
                step.on_timeout = draw.choice(["expire", "skip", "run"])
            steps.append(step)
        return steps

    # -- what is done

    def forward(self) -> None:
        self.clock.forward(seconds=self.draw.choice(SPANS).total_seconds())

    def look(self) -> None:
        now, expected = self.clock(), self.model.look(self.clock())
        ready = [Start(run.run_id) for run in self.store.claims.make_ready(limit=9)]
        claims = self.store.claims.start(ready, worker="w", epoch=None, lease=LEASE)
        names = {task_id: name for name, task_id in self.ids.items()}
        found = sorted(claims, key=lambda claim: names[claim.task.id])
        assert [names[claim.task.id] for claim in found] == sorted(step.name for step in expected)
        for claim in found:
            step = next(step for step in expected if step.name == names[claim.task.id])
            self._end(claim, step, well=self.draw.random() < 0.8, now=now)

    def _end(self, claim: Claim, step: Step, *, well: bool, now: datetime) -> None:
        outcome = Done("done") if well else Failed("it cannot succeed")
        self.store.claims.settle([settle(claim, outcome, now=now, jitter=0.0)])
        self.model.end({step: "succeeded" if well else "failed"}, now)

    def send(self) -> None:
        name, self.sent = self.draw.choice(self.model.steps).name, self.sent + 1
        freed = self.scheduler.signals.send(_event(name), event_id=f"e{self.sent}").freed
        assert freed == self.model.send(name, self.clock()), f"the event of {name}"

    def late(self) -> None:
        self.store.signals.end_late(limit=9)
        self.model.late(self.clock())

    def expire(self) -> None:
        self.store.approvals.expire(limit=9)
        self.model.expire(self.clock())

    def yes(self) -> None:
        for step in self._one(self._asking()):
            self.scheduler.approve(self.ids[step.name])
            self.model.yes(step, self.clock())

    def no(self) -> None:
        for step in self._one(self._asking()):
            self.scheduler.reject(self.ids[step.name])
            self.model.no(step, self.clock())

    def cancel(self) -> None:
        for step in self._one([step for step in self.model.steps if step.is_open]):
            self.scheduler.cancel(self.ids[step.name])
            self.model.end({step: "cancelled"}, self.clock())

    def undone_yes(self) -> None:
        """Nothing but the end of a question that is over has changed."""
        for step in self._one(self._asking()):
            view = self.scheduler.approve(self.ids[step.name])
            self.scheduler.act(self.ids[step.name], "undo", undo=view.undo)

    def undone_cancel(self) -> None:
        """Take a cancel back at once; what runs anyway, and lacks neither a yes nor an event, would go on by it."""
        waiting = [step for step in self.model.steps if step.after and step.state == "waiting"]
        if all(step.lacks or step.policy != "run_anyway" for step in waiting):
            for step in self._one([step for step in self.model.steps if step.is_open]):
                self._taken_back(self.ids[step.name])

    def undone_cancel_of_all(self) -> None:
        if all(step.is_open for step in self.model.steps):
            self._taken_back(self.chain_id)

    def _taken_back(self, task_id: str) -> None:
        self.late()
        self.expire()
        self.check()
        if self.scheduler.get(task_id).record.run.ended_at is None:
            view = self.scheduler.cancel(task_id)
            self.scheduler.act(task_id, "undo", undo=view.undo)
        self.look()  # a run of a chain that recurs waits again then
        self.late()  # a wait that was over without its event is so again

    def _asking(self) -> list[Step]:
        now = self.clock()
        return [step for step in self.model.steps if step.is_open and step.asked and step.asked > now]

    def _one(self, steps: Sequence[Step]) -> list[Step]:
        return [self.draw.choice(steps)] if steps else []

    # -- what holds

    def _shown(self, view: TaskView | None = None) -> Sequence[Any]:
        chain = (view or self.scheduler.get(self.chain_id)).chain
        assert chain
        return chain.steps

    def check(self) -> None:
        shown = self._shown()
        if self.model.renewed:
            [self.model.due] = {step.due for step in shown}
            assert self.model.due > self.clock()
            for step in self.model.steps:
                step.at = self.model.due
            self.model.renewed = False
        assert {step.name: step.state.value for step in shown} == {step.name: step.state for step in self.model.steps}
        runs = {step.name: self.store.tasks.get("local", step.task_id).run for step in self.model.steps}
        asked = self.store.approvals.open_of("local", [run.id for run in runs.values()])
        asking = {name: asked[run.id].ends_at for name, run in runs.items() if run.id in asked}
        assert asking == {step.name: step.asked for step in self.model.steps if step.is_open and step.asked}
        names = {waiter: name for name, run in runs.items() for waiter in (run.id, run.task_id)}
        waiting = {names.get(waiter, waiter): until for waiter, until in self._waiting()}
        assert waiting == {step.name: step.awaited for step in self.model.steps if step.is_open and step.awaited}

    def _waiting(self) -> list[tuple[str, datetime]]:
        """Return which tasks and runs wait for events, and until when."""
        rows = select(signal_waits.c.waiter_id, signal_waits.c.until).where(signal_waits.c.closed_at.is_(None))
        return self.store._database.read(lambda connection: [(row[0], row[1]) for row in connection.execute(rows)])


def _event(name: str) -> str:
    return f"go-{name}"


def _arguments(step: Step) -> StepArguments:
    asked: dict[str, Any] = {"name": step.name}
    if step.after:
        asked |= {"after": [above.name for above in step.after], "after_failure": step.policy}
    if step.ask_span:
        asked["approval"] = {"question": f"Run {step.name}?", "by": step.ask_span, "default": step.default}
    if step.wait_span:
        asked["wait_for"] = {"event": _event(step.name), "timeout": step.wait_span, "on_timeout": step.on_timeout}
    return asked  # type: ignore[return-value]  # as StepArguments


@contextmanager
def _traced(said: list[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise AssertionError("\n".join([*said, repr(error)])) from error


@walks(SEEDS, SEEDS_ON_POSTGRES)
def test_a_walk_of_a_chain_ends_where_the_model_says(store: Store, clock: Clock, seed: int) -> None:
    walk = Walk(store, clock, random.Random(seed))
    with _traced(walk.said):
        walk.check()
        for number in range(STEPS_COUNT):
            name = walk.draw.choice(OPERATIONS if number < STEPS_COUNT / 2 else (*OPERATIONS, *RARE))
            walk.said.append(f"{name} at {clock():%d %H:%M:%S}")
            operation: Callable[[], None] = getattr(walk, name)
            operation()
            walk.check()
    assert_sound(store)
    assert store.dependencies.repair(limit=99) == 0

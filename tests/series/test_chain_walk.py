"""Chains go through everything that a user may do and that time may bring, at random, and agree with the reference.

150 sequences of 20 steps: groups of 50 chains on one clock, each with operations of its own. A few go over PostgreSQL.
`.ci/run search` goes through 3,000. The sequences depend on the seed alone. `SERIES_SEED` (a number, or `random`),
`CHAIN_GROUPS` and `CHAIN_GROUPS_ON_POSTGRES` ask for other and more walks:

    SERIES_SEED=random CHAIN_GROUPS=60 pytest tests/series/test_chain_walk.py

The seed is part of each test's name. On a difference the chain's own steps are printed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.history.dead_letters import LettersClosed
from duetime.scheduler.outcomes import Done, Failed, Outcome, Retry, Wait
from duetime.scheduler.quotas import NO_QUOTAS
from duetime.scheduler.rules.settlement import refresh, settle
from duetime.scheduler.run_records import Claim, Verdict
from duetime.scheduler.service.fan_out import FanOut
from duetime.scheduler.store import open_store
from duetime.scheduler.views import ChainStep, TaskView
from duetime.widgets.payload import task_payload

from tests.builders import NOON, Clock
from tests.series.chain_model import PATIENCE, PAUSE_BETWEEN_ATTEMPTS, ChainModel, Edge, Question, Refuses, Step
from tests.series.house import RETRY, House, traced
from tests.series.test_series_walk import SEED

GROUP_COUNT = int(os.environ.get("CHAIN_GROUPS", "3"))
POSTGRES_GROUP_COUNT = int(os.environ.get("CHAIN_GROUPS_ON_POSTGRES", "1"))
CHAIN_COUNT, STEP_COUNT = 50, 20
POSTGRES_CHAIN_COUNT, POSTGRES_STEP_COUNT = 10, 15
MINUTE = timedelta(minutes=1)
SPANS = (0 * MINUTE, MINUTE, 10 * MINUTE, 60 * MINUTE, 300 * MINUTE)
SCHEMA = {"type": "object", "required": ["rows"]}
OUTCOMES: dict[str, Outcome] = {
    "done": Done("done", {"rows": 3}),
    "odd": Done("done", "no rows"),
    "failed": Failed("it cannot succeed"),
    "retry": Retry("no answer", after=PAUSE_BETWEEN_ATTEMPTS),
}
ANSWERS: Sequence[Literal["approve", "reject"]] = ("approve", "approve", "reject")
UNDONE_RATIO = 0.4
"""The part of the changes that are taken back at once."""

UNDONE_NO_RATIO = 0.8
"""The same of a no to several steps, which is rare."""

MAX_RUNS = 10_000
MAX_ROUNDS = 40
COMPARISON_STEP_COUNT = 4
"""After so many steps all chains are compared with the reference; each one is whenever something is done to it."""


@dataclass(eq=False)
class Walk:
    """One chain, its reference, and what happened to both."""

    house: House
    draw: random.Random
    chain_id: str = ""
    model: ChainModel = field(init=False)
    held: list[tuple[Claim, Step]] = field(default_factory=list)
    failed: list[tuple[Step, str]] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    names: int = 0

    def schedule(self) -> None:
        now, recurs = self.house.clock(), self.draw.random() < 0.4
        steps, asked = list[Step](), []
        common = self.question("Go?") if self.draw.random() < 0.4 else None
        for number in range(self.draw.randint(1, 6)):
            name = f"s{number}"
            degrees = (0, 0, 0, 1, 2) if common else (0, 1, 1, 2, 3)  # most ask together: several first steps
            above = self.draw.sample(steps, min(len(steps), self.draw.choice(degrees)))
            policy, schema = self.draw.choice(["fail", "fail", "skip", "run_anyway"]), self.draw.random() < 0.2
            at = now if recurs else now + self.draw.choice(SPANS)
            edges = [Edge(each, policy, schema) for each in above]
            own = self.question(f"Go on to {name}?") if self.draw.random() < (0.1 if common else 0.2) else None
            step = Step(name, at, at, own or (None if above else common), after=edges)
            step.begin(now, later=recurs)
            steps.append(step)
            more: dict[str, Any] = {"after": [each.name for each in above], "after_failure": policy} if above else {}
            more |= {"valid_output": SCHEMA} if above and schema else {}
            more |= {"approval": _argument(own)} if own else {}
            asked.append({"name": name, **more, **({} if recurs else {"when": at})})
        asking = [step for step in steps if step.question is common]
        if common and len(asking) > 1:  # no two decide by default at once
            common = Question(common.text)
            for step in asking:
                step.question = common
                step.begin(now, later=recurs)
        more = {"repeat": "every 2 hours"} if recurs else {}
        more |= {"approval": _argument(common)} if common and any(step.question is common for step in steps) else {}
        self.tell(f"schedule {asked} {more}")
        self.model = ChainModel(steps, recurs)
        view = self.house.scheduler.schedule("Report", steps=asked, retry=RETRY, **more)  # type: ignore[arg-type]  # plain
        self.chain_id = view.record.task.id
        self.model.renewed = recurs
        self.compare(view)

    def operate(self) -> None:
        operations: Sequence[tuple[Callable[[], None], float]] = (
            (lambda: None, 8), (self.cancel, 3), (self.cancel_all, 1), (self.move, 3), (self.move_all, 2),
            (self.run_now, 3), (self.pause, 3), (self.pause_all, 2), (self.late_undo, 2), (self.answer, 4),
            (self.answer_all, 3), (self.replay, 3), (self.discard, 1), (self.send, 3),
        )  # fmt: skip
        self.draw.choices([each for each, _ in operations], [weight for _, weight in operations])[0]()

    # -- operations: each asks the product and the reference for the same

    def cancel(self) -> None:
        step, now, cancel = self.a_step(), self.house.clock(), self.house.scheduler.cancel
        was = step.state
        view = self.ask(f"cancel {step.name}", lambda: cancel(step.task_id), lambda: self.model.cancel(step, now))
        if view is not None and view.undo and was != "cancelled" and self.draw.random() < UNDONE_RATIO:
            self.undo_cancel(step)

    def late_undo(self) -> None:
        """Take a cancel back, if it is not too late, whatever has happened since."""
        self.undo_cancel(self.a_step())

    def undo_cancel(self, step: Step) -> None:
        now, act = self.house.clock(), self.house.scheduler.act
        undo = lambda: act(step.task_id, "undo")  # noqa: E731 - one of two things to be done
        self.ask(f"undo the cancel of {step.name}", undo, lambda: self.model.undo_cancel(step, now))

    def cancel_all(self) -> None:
        now, chosen = self.house.clock(), [step for step in self.model.all if step.is_open and step.state != "running"]
        view = self.ask(
            "cancel all", lambda: self.house.scheduler.cancel(self.chain_id), lambda: self.model.cancel_all(now)
        )
        if view is None or not view.undo or self.draw.random() > UNDONE_RATIO or any(step.started for step in chosen):
            return
        token = view.undo
        undo = lambda: self.house.scheduler.act(self.chain_id, "undo", undo=token)  # noqa: E731 - as above
        self.ask("undo cancel all", undo, lambda: self.model.undo_cancel_all(chosen, now))

    def move(self) -> None:
        step, now = self.a_step(), self.house.clock()
        to, back = now + self.draw.choice(SPANS), self.model.remember_run(step, now)
        move = lambda: self.house.scheduler.reschedule(step.task_id, when=to)  # noqa: E731 - as above
        view = self.ask(f"move {step.name} to {to}", move, lambda: self.model.move(step, to, now))
        self.take_back(step.task_id, back, view)

    def move_all(self) -> None:
        now = self.house.clock()
        to = now + self.draw.choice(SPANS)
        self.change(f"move all to {to}", self.chain_id, lambda: self.model.move_all(to, now), when=to)

    def run_now(self) -> None:
        step, now = self.a_step(), self.house.clock()
        run = lambda: self.house.scheduler.act(step.task_id, "run_now")  # noqa: E731 - as above
        back, replayed = self.model.remember_run(step, now), self.model.replays(step) and step.fell
        back = self.model.remember() if replayed else back
        view = self.ask(f"run {step.name}", run, lambda: self.model.run_now(step, now))
        self.take_back(step.task_id, back, view, always=replayed)

    def pause(self) -> None:
        step, now = self.a_step(), self.house.clock()
        hold = not step.paused
        asked = lambda: self.model.pause(step) if hold else self.model.resume(step, now)  # noqa: E731 - as above
        self.change(f"{'pause' if hold else 'resume'} {step.name}", step.task_id, asked, pause=hold)

    def pause_all(self) -> None:
        hold, now = self.draw.random() < 0.5, self.house.clock()
        asked = self.model.pause_all if hold else lambda: self.model.resume_all(now)
        self.change("pause all" if hold else "resume all", self.chain_id, asked, pause=hold)

    def answer(self) -> None:
        """Answer for a step, most often for one that asks."""
        asking = [step for step in self.model.all if step.asks]
        step = self.draw.choice(asking) if asking and self.draw.random() < 0.8 else self.a_step()
        how, now, act = self.draw.choice(ANSWERS), self.house.clock(), self.house.scheduler.act
        reference = lambda: self.model.answer(step, how, now)  # noqa: E731 - as above
        asked, back = step.asks, self.model.remember()
        view = self.ask(f"{how} {step.name}", lambda: act(step.task_id, how), reference)
        if asked and how == "approve":
            self.take_yes_back(step.task_id, back, view)
        if view is not None and view.undo and step.state == "cancelled" and self.draw.random() < UNDONE_RATIO:
            self.undo_cancel(step)

    def answer_all(self) -> None:
        """Answer for the chain."""
        how, now, act = self.draw.choice(ANSWERS), self.house.clock(), self.house.scheduler.act
        alone = not any(at == now for step in self.model.all for _, at in step.answered)  # no clock separates them
        asking, back = sum(step.asks for step in self.model.all), self.model.remember()
        view = self.ask(f"{how} all", lambda: act(self.chain_id, how), lambda: self.model.answer_all(how, now))
        if alone and asking and how == "approve":
            self.take_yes_back(self.chain_id, back, view)
        undone_ratio = UNDONE_RATIO if asking < 2 else UNDONE_NO_RATIO
        if view is not None and view.undo and how == "reject" and self.draw.random() < undone_ratio:
            token = view.undo
            undo = lambda: act(self.chain_id, "undo", undo=token)  # noqa: E731 - as above
            self.ask("undo that no", undo, lambda: self.model.undo_answers(now))

    def take_yes_back(self, task_id: str, back: Callable[[], None], view: TaskView | None) -> None:
        """Ask again what was just approved, at times."""
        if view is not None and view.undo and self.draw.random() < UNDONE_RATIO:
            token, now, act = view.undo, self.house.clock(), self.house.scheduler.act
            reference = lambda: self.model.ask_again(back, now)  # noqa: E731 - as above
            self.ask("undo that yes", lambda: act(task_id, "undo", undo=token), reference)

    def replay(self) -> None:
        """Run a step again by its dead letter, which may be closed by now, at times with another payload."""
        failed = [each for each in self.failed if each[0] in self.model.all]
        if not failed:
            return
        step, run_id = self.draw.choice(failed)
        now, scheduler = self.house.clock(), self.house.scheduler
        payload = self.draw.choice([None, f"message {now}"])
        given = None if payload is None else {"message": payload}
        done, back, replayed = list[LettersClosed](), self.model.remember(), self.model.is_earlier(step, run_id)

        def replay() -> TaskView:
            done.append(scheduler.letters.replay([run_id], payload=given))
            return scheduler.get(self.chain_id)

        reference = lambda: self.model.replay(step, run_id, payload, now)  # noqa: E731 - as above
        view = self.ask(f"replay {step.name} with {payload}", replay, reference)
        if view and replayed:
            self.undo_replay(done[0], back)
        elif view:
            assert scheduler.get(step.task_id).record.task.payload["message"] == step.payload

    def undo_replay(self, done: LettersClosed, back: Callable[[], None]) -> None:
        """Take back that a step of an earlier generation runs next to the one to come."""

        def undo() -> TaskView:
            self.house.scheduler.bulk.change("undo", undo=done.undo)
            return self.house.scheduler.get(self.chain_id)

        self.ask("undo that replay", undo, back)

    def discard(self) -> None:
        if self.failed:
            step, run_id = self.draw.choice(self.failed)
            discard = lambda: self.house.scheduler.letters.discard([run_id], reason="too late")  # noqa: E731 - as above
            reference = lambda: self.model.discard(step, run_id)  # noqa: E731 - as above
            self.ask(f"discard {step.name}", lambda: self.closed(discard), reference)

    def closed(self, close: Callable[[], LettersClosed]) -> TaskView:
        """Close a dead letter; return the chain as it is then."""
        close()
        return self.house.scheduler.get(self.chain_id)

    def send(self) -> None:
        """Send the event for which a step waits, if one does."""
        now = self.house.clock()
        waiting = [step for step in self.model.all if step.is_held(now)]
        if waiting:
            step = self.draw.choice(waiting)
            self.tell(f"send the event of {step.name}")
            assert self.house.scheduler.signals.send(_event_of(step)).freed == 1
            self.model.send(step, now)
            self.compare()

    def change(self, what: str, task_id: str, reference: Callable[[], None], **arguments: Any) -> None:
        back = self.model.remember()
        view = self.ask(what, lambda: self.house.scheduler.reschedule(task_id, **arguments), reference)
        self.take_back(task_id, back, view)

    def take_back(self, task_id: str, back: Callable[[], None], view: TaskView | None, *, always: bool = False) -> None:
        """Undo a change at once, at times: everything is as it was, but that what was ready waits for its timer."""
        if view is None or not view.undo or (self.draw.random() > UNDONE_RATIO and not always):
            return
        token, now = view.undo, self.house.clock()

        def reference() -> None:
            self.model.ask_again(back, now)
            found = {step.name: step for step in self.shown().steps}
            for step in self.model.all:
                if step.state == "ready" and found[step.name].state == "scheduled":
                    step.state, step.wake = "scheduled", found[step.name].due

        self.ask("undo that", lambda: self.house.scheduler.act(task_id, "undo", undo=token), reference)

    def ask(self, what: str, product: Callable[[], TaskView], reference: Callable[[], None]) -> TaskView | None:
        """Ask both; return the answer, None where it is refused."""
        self.tell(what)
        view, refused = None, ""
        try:
            view = product()
        except (InvalidArgument, Refused) as error:
            refused = str(error)
        try:
            reference()
        except Refuses:
            assert view is None, "the reference refuses"
            return None
        assert view is not None, f"refused: {refused}"
        self.compare()
        return view

    def finish_all(self) -> None:
        """Let a chain go on to its end; one that recurs has none, and is cancelled."""
        now, scheduler = self.house.clock(), self.house.scheduler
        for step in [] if self.model.recurs else [step for step in self.model.all if step.asks]:
            yes = partial(self.model.answer, step, "approve", now)
            self.ask(f"approve {step.name}", partial(scheduler.approve, step.task_id), yes)
        if self.model.recurs:
            self.ask("cancel all", lambda: scheduler.cancel(self.chain_id), lambda: self.model.cancel_all(now))
        elif any(step.is_open for step in self.model.all):
            resume = lambda: scheduler.reschedule(self.chain_id, pause=False)  # noqa: E731 - as above
            self.ask("resume all", resume, lambda: self.model.resume_all(now))

    def check_ended(self) -> None:
        stuck = [step.name for step in self.model.all if step.is_open]
        assert not stuck, f"never ends: {stuck}"

    # -- what time brings

    def start(self, claims: Sequence[Claim]) -> None:
        started = {claim.task.id: claim for claim in claims}
        expected = {step.task_id: step for step in self.model.startable()}
        assert started.keys() == expected.keys(), "other steps started than should"
        for task_id, step in expected.items():
            self.model.start(step, started[task_id].run.id)
            self.held.append((started[task_id], step))
            self.tell(f"{step.name} started")

    def end(self, chance: float) -> None:
        for claim, step in list(self.held):
            if self.draw.random() < chance:
                self.held.remove((claim, step))
                ends = ["done", "odd", "failed", "retry", "wait"]
                how = self.draw.choices(ends, [6, 2, 3, 1, 2])[0] if chance < 1 else "done"
                spawned = self.spawned() if how == "done" and chance < 1 and self.draw.random() < 0.2 else {}
                self.tell(f"{step.name} ends: {how} {spawned}")
                outcome = Wait(event=_event_of(step), timeout=PATIENCE) if how == "wait" else OUTCOMES[how]
                self.finish(claim, outcome, spawned)
                self.model.finish(step, how, self.house.clock(), spawned)
                self.failed += [(step, claim.run.id)] if claim.run.id in step.letters else []
                self.compare()

    def spawned(self) -> dict[str, tuple[str, ...]]:
        self.names += 1
        one, two = f"one{self.names}", f"two{self.names}"
        return {one: (), two: (one,) if self.draw.random() < 0.5 else ()}

    def finish(self, claim: Claim, outcome: Outcome, spawned: dict[str, tuple[str, ...]]) -> None:
        house = self.house
        asked = [{"name": name, "after": list(after)} for name, after in spawned.items()]
        fan_out = FanOut(house.store, house.planner, NO_QUOTAS)
        found = settle(claim, outcome, now=house.clock(), jitter=0.0)
        found = replace(found, spawned=tuple(fan_out.plan(claim.task, asked)) if asked else ())
        if house.store.claims.settle([found]) == [Verdict.SETTLED]:
            house.release(claim)
        else:  # the task was changed since the claim
            self.finish(refresh(claim, house.store.tasks.get(claim.run.tenant, claim.run.task_id)), outcome, spawned)

    # -- what holds after each step

    def shown(self) -> Any:
        chain = self.house.scheduler.get(self.chain_id).chain
        assert chain
        return chain

    def compare(self, view: TaskView | None = None) -> None:
        view = view or self.house.scheduler.get(self.chain_id)
        assert view.chain
        shown = {step.name: step for step in view.chain.steps}
        assert shown.keys() == {step.name for step in self.model.all}
        if self.model.renewed:
            self.learn(view)
        for place, seen in enumerate(view.chain.steps):
            step = next(each for each in self.model.all if each.name == seen.name)
            step.task_id, step.place = seen.task_id, place
        found = {name: self.seen(step) for name, step in shown.items()}
        assert found == {step.name: self.expected(step) for step in self.model.all}
        self.count(view)

    def learn(self, view: TaskView) -> None:
        """Learn the time of a generation, which is that of all its steps: the walk of series proves such times."""
        assert view.chain
        [at] = {step.due for step in view.chain.steps}
        assert (at > self.house.clock(), view.record.run.number) == (True, self.model.generation)
        for step in self.model.steps:
            step.at = step.wake = at
        self.model.renewed = False

    def seen(self, step: ChainStep) -> tuple[object, ...]:
        return step.state.value, str(step.due) if step.state.value in ("waiting", "scheduled", "retrying") else ""

    def expected(self, step: Step) -> tuple[object, ...]:
        return step.state, str(step.due) if step.state in ("waiting", "scheduled", "retrying") else ""

    def count(self, view: TaskView) -> None:
        """Compare the counts of a card with the steps."""
        payload, states = task_payload(view), [step.state for step in self.model.all]
        assert payload.chain
        assert (payload.chain.done, payload.chain.of) == (states.count("succeeded"), len(states))
        assert len(payload.chain.failed or ()) == states.count("failed")

    def check_urgency(self) -> None:
        """Compare what waits for each ready run with what is reached by what is waited for."""
        for step in self.model.all:
            if step.state == "ready":
                waiters = self.house.store.dependencies.waiters("local", step.task_id)
                assert {(each.upstream_id, each.task_id) for each in waiters} == self.model.waiters(step), step.name

    def question(self, text: str) -> Question:
        """Draw a question, each with an end of its own, so that no two decide by default at once."""
        self.names += 1
        span = self.draw.choice([None, 20 * MINUTE, 200 * MINUTE])
        default = "reject" if span is None else self.draw.choice(["approve", "reject"])
        return Question(text, default, span and span + self.names * MINUTE / 60)

    def check_letters(self, open_letters: set[str]) -> set[str]:
        """Compare the runs of this chain whose dead letters are open; return them."""
        mine = {run_id for _, run_id in self.failed}
        expected = {run_id for step, _ in self.failed for run_id in step.letters}
        assert mine & open_letters == expected, "other dead letters are open"
        return expected

    def tell(self, what: str) -> None:
        self.told.append(f"{self.house.clock():%d %b %H:%M:%S} {what}")

    def a_step(self) -> Step:
        return self.draw.choice(self.model.all)


@dataclass
class Group:
    """Chains that go through the same time, each in its own way."""

    house: House
    walks: Sequence[Walk]
    draw: random.Random

    def run(self, steps: int) -> None:
        self.each(Walk.schedule)
        for number in range(1, steps + 1):
            self.each(Walk.operate)
            self.each(lambda walk: walk.end(0.6))
            self.check(compared=number % COMPARISON_STEP_COUNT == 0)
            self.advance()
        self.finish()

    def each(self, act: Callable[[Walk], None]) -> None:
        for walk in self.walks:
            with traced(walk.told):
                act(walk)

    def check(self, *, compared: bool) -> None:
        """Nothing was overlooked, and each run has the place that its urgency gives it."""
        assert self.house.store.dependencies.repair(limit=MAX_RUNS) == 0, "an end was not followed"
        self.house.dispatch()
        for walk in self.walks:
            walk.model.make_ready(self.house.clock())
        self.each(lambda walk: walk.compare() if compared or walk.model.renewed else None)
        self.each(Walk.check_urgency)
        self.check_letters()
        self.check_questions()
        for ready in self.house.store.claims.ready(limit=MAX_RUNS):
            assert self.house.place(ready.run_id) == pytest.approx(self.house.place_of(ready)), ready

    def check_letters(self) -> None:
        """Whoever failed by itself has a dead letter, until it runs again or somebody discards it."""
        found = self.house.open_letters()
        self.each(lambda walk: found.difference_update(walk.check_letters(found)))
        assert not found, "dead letters that nothing failed for"

    def check_questions(self) -> None:
        """Nobody is asked for a step that waits for no answer any more."""
        asking = {step.task_id for walk in self.walks for step in walk.model.all if step.asks}
        assert self.house.open_questions() == asking, "other questions are open"
        kept = {step.task_id: step.at for walk in self.walks for step in walk.model.all if step.opened}
        assert self.house.times(list(kept)) == kept, "what was asked for when it was due keeps its time"

    def advance(self) -> None:
        to = self.house.clock() + self.draw.choice(SPANS)
        while (due := self.house.next_wake()) is not None and due <= to:
            self.house.clock.at = max(due, self.house.clock())
            self.fire()
        self.house.clock.at = to
        if self.draw.random() < 0.8:
            self.fire()

    def fire(self) -> None:
        self.house.dispatch()
        claims: dict[str, list[Claim]] = {}
        for claim in self.house.start():
            claims.setdefault(self.owner(claim), []).append(claim)
        for walk in self.walks:
            walk.model.make_ready(self.house.clock())
            with traced(walk.told):
                if walk.model.renewed:
                    walk.compare()
                walk.start(claims.pop(walk.chain_id, []))
        assert not claims, "something started that is no step any more"

    def owner(self, claim: Claim) -> str:
        names = self.house.store.chains.names("local", [claim.task.id])
        return names[claim.task.id].id if names else ""

    def finish(self) -> None:
        """Let everything run: every step ends, and nothing is left that waits."""
        for walk in self.walks:
            with traced(walk.told):
                walk.finish_all()
        for _ in range(MAX_ROUNDS):
            self.each(lambda walk: walk.end(1.0))
            self.advance()
            if not any(step.is_open for walk in self.walks for step in walk.model.all):
                break
        self.each(Walk.check_ended)


def _argument(question: Question) -> dict[str, Any]:
    """Return a question as the tools take it."""
    asked: dict[str, Any] = {"question": question.text, "default": question.default}
    return asked | ({"by": question.span} if question.span else {})


def _event_of(step: Step) -> str:
    return f"go-{step.run}"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    clock = Clock(NOON)
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield House(store, clock)
    store.close()


@pytest.mark.parametrize("number", range(GROUP_COUNT), ids=lambda number: f"seed {SEED}, group {number}")
def test_chains_agree_with_the_reference_whatever_is_done_to_them(house: House, number: int) -> None:
    walks = [Walk(house, random.Random(f"{SEED}/{number}/{chain}")) for chain in range(CHAIN_COUNT)]
    Group(house, walks, random.Random(f"{SEED}/{number}")).run(STEP_COUNT)


@pytest.mark.postgres
@pytest.mark.parametrize("number", range(POSTGRES_GROUP_COUNT), ids=lambda number: f"seed {SEED}, group {number}")
def test_chains_agree_with_the_reference_on_postgresql_too(migrated_postgres_url: str, number: int) -> None:
    clock = Clock(NOON)
    store = open_store(migrated_postgres_url, clock=clock)
    house = House(store, clock)
    walks = [Walk(house, random.Random(f"{SEED}/postgres/{number}/{chain}")) for chain in range(POSTGRES_CHAIN_COUNT)]
    Group(house, walks, random.Random(f"{SEED}/postgres/{number}")).run(POSTGRES_STEP_COUNT)
    store.close()

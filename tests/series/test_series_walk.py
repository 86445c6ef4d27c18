"""Series go through everything that a user may do and that time may bring, at random, and agree with the reference.

300 sequences of 40 steps: groups of 50 tasks on one clock. Each has operations of its own, and some that one call does
to several. A few go over PostgreSQL. `.ci/run search` goes through 3,000. The sequences depend on the seed alone.
`SERIES_SEED` (a number, or `random`), `SERIES_GROUPS` and `SERIES_GROUPS_ON_POSTGRES` ask for other and more walks:

    SERIES_SEED=random SERIES_GROUPS=100 pytest tests/series/test_series_walk.py

The seed is part of each test's name. On a difference the task's own steps are printed. `mutations.py` shows which
defects the walk finds.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.calls.bulk_change import Became, BulkVerb, TaskOutcome
from duetime.scheduler.errors import InvalidArgument, Refused
from duetime.scheduler.history.dead_letters import LettersClosed
from duetime.scheduler.intake.changes.actions import is_change_token
from duetime.scheduler.request import ActionOnTask
from duetime.scheduler.rules.states import TERMINAL
from duetime.scheduler.run_records import Claim
from duetime.scheduler.store import open_store
from duetime.scheduler.task import Run as StoredRun
from duetime.scheduler.task import Task
from duetime.scheduler.views import TaskRecord, TaskView

from tests.builders import Clock
from tests.series.calendar import DAY, HOUR, MINUTE, RULES, begun
from tests.series.house import RETRY, House, traced
from tests.series.model import Model, Refuses, Run, Terms
from tests.series.mutations import MUTATIONS, ROOT, planted

GROUP_COUNT = int(os.environ.get("SERIES_GROUPS", "6"))
POSTGRES_GROUP_COUNT = int(os.environ.get("SERIES_GROUPS_ON_POSTGRES", "1"))
_ASKED = os.environ.get("SERIES_SEED", "0")
SEED = random.SystemRandom().randrange(10**9) if _ASKED == "random" else int(_ASKED)
TASK_COUNT, STEP_COUNT = 50, 40
POSTGRES_TASK_COUNT, POSTGRES_STEP_COUNT = 10, 20
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kolkata")
BEGINS = tuple(  # before clock changes and the ends of short months
    datetime(*day, hour=5, tzinfo=UTC)
    for day in ((2026, 1, 28), (2026, 3, 5), (2026, 9, 28), (2026, 10, 22), (2027, 2, 25), (2027, 3, 24))
)
STEP_LENGTHS = ((10 * MINUTE / 60, 2), (7 * MINUTE, 3), (HOUR, 4), (6 * HOUR, 4), (DAY, 4), (3 * DAY, 1))
UNDONE_RATIO = 0.2
"""The part of the changes that are undone at once by their token."""

BULK_RATIO = 0.5
"""The part of the steps in which one call changes several tasks, and of such calls those that stand."""

OVERLAPS = ("skip", "buffer_one", "buffer_all", "cancel_other", "cancel_other", "allow_all", "allow_all")
FOLLOW_UP, LABELS = "on_failure", ("home", "work")
MAX_UNREAD_ROWS = 1_000
FOLLOWS: dict[str, Any] = {"run": {"action": "effect"}}
TERMS: Mapping[str, Sequence[tuple[Any, Mapping[str, Any]]]] = {
    "title": [(text, {"title": text}) for text in ("Take the pill", "Take two pills")],
    "labels": [(list(labels), {"labels": labels}) for labels in ((), LABELS[:1], LABELS)],
    "deliver_to": [(["inbox"], {"deliver_to": ()}), (["mail"], {"deliver_to": ("mail",)})],
    "retry": [(replace(RETRY, max_attempts=most), {"attempts": most}) for most in (1, 2, 3)],
    "expect": [({"field": "order"}, {"expects": True}), ({}, {"expects": False})],
    "payload": [({"seconds": seconds}, {"payload": seconds}) for seconds in (0.05, 0.5, 1.5)],
    "priority": [(tier, {"priority": tier}) for tier in ("critical", "normal", "low")],
    "on_failure": [
        ({}, {"follows": False, "raises": False}),
        (FOLLOWS, {"follows": True, "raises": False}),
        ({"tier": "high"}, {"follows": False, "raises": True}),
        ({**FOLLOWS, "tier": "high"}, {"follows": True, "raises": True}),
    ],
}
"""Values of the arguments of a change, each with what it makes of the terms."""

SPANS = (timedelta(0), 5 * MINUTE, HOUR, 10 * HOUR, 2 * DAY, 9 * DAY)


@dataclass(eq=False)
class Walk:
    """One task, its reference, and what happened to both."""

    house: House
    draw: random.Random
    task_id: str = ""
    model: Model = field(init=False)
    told: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)
    held: list[tuple[Claim, Run]] = field(default_factory=list)
    failed: list[Run] = field(default_factory=list)

    @property
    def now(self) -> datetime:
        return self.house.clock()

    # -- operations: each asks the product and the reference for the same

    def schedule(self) -> None:
        words, zone, now = self.draw.choice(RULES), self.draw.choice(ZONES), self.now
        rule = begun(words, zone, now)
        first = rule.after(max(now, rule.anchor - MINUTE))
        until = self.draw.choice([None, None, first + self.draw.choice(SPANS)])
        most = self.draw.choice([None, None, 1, 2, 3, 5])
        overlap = self.draw.choice(OVERLAPS)
        asked: dict[str, Any] = {"repeat": words.text, "timezone": zone, "until": until, "max_runs": most}
        asked |= {} if overlap == "skip" else {"repeat_policy": {"overlap": overlap}}
        self.told.append(f"{now:%d %b %H:%M:%S} schedule {asked}")
        view = self.house.scheduler.schedule("Take the pill", action="effect", retry=RETRY, **asked)
        self.task_id = view.record.task.id
        self.model = Model(rule, zone, Run(first, 1, wake=first), until, most, overlap)
        self.compare(view)

    def operate(self) -> None:
        operations: Sequence[tuple[Callable[[], object], float]] = (
            (lambda: None, 8), (self.skip, 2), (self.snooze, 4), (self.run_now, 2), (self.move, 2), (self.new_rule, 2),
            (self.new_until, 2), (self.pause, 3), (self.pause_until, 2), (self.cancel, 2), (self.undo, 1),
            (self.never, 0.5), (self.new_zone, 1), (self.new_overlap, 1), (self.new_terms, 4), (self.replay, 2),
            (self.discard, 0.5), (self.done, 1),
        )  # fmt: skip
        act = self.draw.choices([each for each, _ in operations], [weight for _, weight in operations])[0]
        act()

    def skip(self) -> None:
        self.ask("skip", lambda: self.act("skip_next"), lambda: self.model.skip(self.now))

    def snooze(self) -> None:
        coming = self.model.run.at - self.now
        length = self.draw.choice([5 * MINUTE, HOUR, 50 * HOUR, coming])
        minutes = max(1, int(length / MINUTE))
        self.ask(
            f"snooze by {minutes} minutes",
            lambda: self.act("snooze", minutes=minutes),
            lambda: self.model.snooze(minutes * MINUTE, self.now),
        )

    def run_now(self) -> None:
        self.ask("run_now", lambda: self.act("run_now"), lambda: self.model.run_now(self.now))

    def move(self) -> None:
        to = self.now + self.draw.choice(SPANS)
        self.ask(f"when {to}", lambda: self.change(when=to), lambda: self.model.move(to, self.now, around_pause=True))

    def new_rule(self) -> None:
        words, until = self.draw.choice(RULES), self.draw.choice([None, None, "never", self.now + 20 * DAY])
        self.ask(
            f"repeat {words.text} until {until}",
            lambda: self.change(repeat=words.text, until=until),
            lambda: self.model.new_rule(words, self.now, until),
        )

    def new_until(self) -> None:
        until = self.draw.choice([None, self.now + self.draw.choice(SPANS[1:]), self.now + 40 * DAY])
        self.ask(
            f"until {until}",
            lambda: self.change(until=until or "never"),
            lambda: self.model.new_until(until, self.now),
        )

    def pause(self) -> None:
        hold = not self.model.paused
        self.ask(
            "pause" if hold else "resume",
            lambda: self.change(pause=hold),
            lambda: self.model.pause(self.now) if hold else self.model.resume(self.now),
        )

    def pause_until(self) -> None:
        until = self.draw.choice([None, *(self.now + span for span in SPANS if span > timedelta())])
        self.ask(
            f"pause until {until}",
            lambda: self.change(pause=True, pause_until=until),
            lambda: self.model.pause(self.now, until),
        )

    def cancel(self) -> None:
        before = sorted(run.at for run in self.model.open())
        revives = not any(run.started for run in self.model.open())
        self.ask("cancel", lambda: self.house.scheduler.cancel(self.task_id), lambda: self.model.cancel(self.now))
        if self.draw.random() < 0.6 and self.undo() and before and revives:  # else another cancel came before
            assert sorted(run.at for run in self.model.open()) == before

    def undo(self) -> bool:
        return self.ask("undo", lambda: self.act("undo"), lambda: self.model.undo(self.now))

    def never(self) -> None:
        self.ask("never", lambda: self.change(repeat="never"), self.model.never)

    def new_zone(self) -> None:
        zone = self.draw.choice(ZONES)
        self.ask(f"zone {zone}", lambda: self.change(timezone=zone), lambda: self.model.new_zone(zone, self.now))

    def new_overlap(self) -> None:
        overlap = self.draw.choice(OVERLAPS)
        self.ask(
            f"overlap {overlap}",
            lambda: self.change(repeat_policy={"overlap": overlap}),
            lambda: self.model.new_overlap(overlap),
        )

    def new_terms(self) -> None:
        """Change one or two of the terms, at times while an attempt runs, which ends as it began."""
        names = self.draw.sample(sorted(TERMS), self.draw.choice([1, 1, 2]))
        drawn = {name: self.draw.choice(TERMS[name]) for name in names}
        asked = {name: value for name, (value, _) in drawn.items()}
        terms = {name: value for _, told in drawn.values() for name, value in told.items()}
        self.ask(f"{asked}", lambda: self.change(**asked), lambda: self.model.new_terms(**terms))

    def replay(self) -> None:
        """Run something again by its dead letter, which may be closed by now, at times with another payload."""
        if self.failed:
            failed = self.draw.choice(self.failed[-3:])
            payload = self.draw.choice([None, None, 0.5])
            given = None if payload is None else {"seconds": payload}
            self.ask(
                f"replay what was for {failed.at} with {payload}",
                lambda: self.closed(lambda: self.house.scheduler.letters.replay([failed.id], payload=given)),
                lambda: self.model.replay(failed, payload, self.now),
            )

    def discard(self) -> None:
        if self.failed:
            failed = self.draw.choice(self.failed[-3:])
            self.ask(
                f"discard what was for {failed.at}",
                lambda: self.closed(lambda: self.house.scheduler.letters.discard([failed.id], reason="too late")),
                lambda: self.model.discard(failed),
            )

    def closed(self, close: Callable[[], LettersClosed]) -> TaskView:
        close()
        return self.house.scheduler.get(self.task_id)

    def done(self) -> None:
        """Read all outcomes; that can be taken back, which makes them unread again."""
        unread = self.model.unread
        views, said = list[TaskView](), list[bool]()

        def product() -> TaskView:
            views.append(self.act("done"))
            return views[0]

        if self.ask("done", product, lambda: said.append(self.model.done())):
            assert (views[0].undo is not None) == said[0], "it says that there was something to read"
            if views[0].undo and self.draw.random() < UNDONE_RATIO:
                self.told.append("undo of that")
                self.act("undo", undo=views[0].undo)
                self.model.unread = unread
        unread_ones = self.house.store.inbox.unread("local", "local", of=self.task_id, limit=MAX_UNREAD_ROWS)
        assert len(unread_ones) == self.model.unread

    def act(self, action: ActionOnTask, **arguments: Any) -> TaskView:
        return self.house.scheduler.act(self.task_id, action, **arguments)

    def change(self, **arguments: Any) -> TaskView:
        return self.house.scheduler.reschedule(self.task_id, **arguments)

    def ask(self, what: str, product: Callable[[], TaskView], reference: Callable[[], None]) -> bool:
        """Ask both; returns whether they did it."""
        self.told.append(f"{self.now:%d %b %H:%M:%S} {what}")
        refused, view, before = "", None, self.model.remember()
        try:
            view = product()
        except (InvalidArgument, Refused) as error:
            refused = str(error)
        try:
            reference()
        except Refuses:
            assert view is None, "the reference refuses"
            before()
            return False
        assert view is not None, f"refused: {refused}"
        self.model.look_again()
        self.compare(view)
        taken_back = view.undo is not None and is_change_token(view.undo) and self.draw.random() < UNDONE_RATIO
        if view.undo and taken_back and self.model.run.ended != self.now:  # else no clock shows which came first
            self.take_back(view.undo, before)
        return True

    def take_back(self, token: str, before: Callable[[], None]) -> None:
        """Undo the change at once: everything is as it was, but that what was ready waits for its timer again."""
        self.told.append(f"{self.now:%d %b %H:%M:%S} undo of that")
        view = self.act("undo", undo=token)
        before()
        self.all_wait_again(view.record)
        self.compare(view)

    def all_wait_again(self, record: TaskRecord) -> None:
        self.model.look_again()
        beside = {run.scheduled_for: run for run in record.side_runs}
        for same in self.model.open():
            self.wait_again(same, record.run if same is self.model.run else beside.get(same.at))

    def wait_again(self, same: Run, run: StoredRun | None) -> None:
        """Let a run that was due wait for its timer again, which has passed: the dispatcher makes it ready again."""
        if run is not None and run.started_at is None and same is not self.model.run:
            same.started, same.failures = False, 0  # what a change had ended stays so: another run takes its place
        if run is not None and run.wake_at is not None and run.wake_at <= self.now and same.wake <= self.now:
            same.wake = run.wake_at
            same.state = "scheduled" if same.state == "ready" else same.state

    def changed_with_others(self, outcome: TaskOutcome, verb: str) -> None:
        """Do in the reference what one call did to this task and others."""
        self.told.append(f"{self.now:%d %b %H:%M:%S} {verb} with others: {outcome.became}")
        operations: dict[str, Callable[[datetime], None]] = {
            "cancel": self.model.cancel, "pause": self.model.pause, "resume": self.model.resume,
            "replay": self.model.replay_last,
        }  # fmt: skip
        try:
            operations[verb](self.now)
        except Refuses:
            assert outcome.became is Became.REFUSED, "the reference refuses"
        else:
            assert outcome.became is not Became.REFUSED, f"refused: {outcome.why}"
            self.model.look_again()
        self.match(outcome.record)

    def taken_back_with_others(self, outcome: TaskOutcome, verb: str, before: Callable[[], None]) -> None:
        """Undo in the reference what one call did; the cancel of a run that had begun is final."""
        self.told.append(f"{self.now:%d %b %H:%M:%S} undo with others: {outcome.became}")
        if verb == "cancel" and self.model.run.started:
            assert outcome.became is Became.REFUSED
            self.match(outcome.record)
            return
        assert outcome.became is Became.CHANGED, f"not taken back: {outcome.why}"
        if verb == "cancel":
            self.model.undo(self.now)
            self.model.look_again()
        else:
            before()
            self.all_wait_again(outcome.record)
        self.match(outcome.record)

    # -- what time brings

    def start(self, claims: Sequence[Claim]) -> Iterator[tuple[Claim, str]]:
        """Start the same runs in the reference; yields those that end at once, and how."""
        by_id = {claim.run.id: claim for claim in claims}
        expected = self.model.startable()
        assert sorted(by_id) == sorted(run.id for run in expected), "other runs started than should"
        for run in sorted(expected, key=lambda run: run is self.model.run):  # what ends together: the current one last
            self.model.start(run)
            how = self.draw.choices(["done", "odd", "failed", "retry", "goes on"], [5, 1, 1, 2, 2])[0]
            self.told.append(f"{self.now:%d %b %H:%M:%S} started what is for {run.at}: {how}")
            if run.counts and self.model.until is not None and run.slot is None:
                assert run.at <= self.model.until or run.started, "it runs after its end"
            if how == "goes on":
                self.held.append((by_id[run.id], run))
            else:
                yield by_id[run.id], how
                self.end(run, how)
        most = self.model.max_runs
        assert most is None or self.model.counted <= most, "it runs more often than it may"

    def end_held(self, chance: float) -> Iterator[tuple[Claim, str]]:
        for held in sorted(self.held, key=lambda each: each[1] is self.model.run):
            if self.draw.random() < chance:
                how = self.draw.choice(["done", "odd", "failed", "retry"]) if chance < 1 else "done"
                self.told.append(f"{self.now:%d %b %H:%M:%S} what was for {held[1].at} ends: {how}")
                self.held.remove(held)
                yield held[0], how
                self.end(held[1], how)

    def end(self, run: Run, how: str) -> None:
        self.model.end(run, how, self.now)
        self.failed += [run] if run.state == "failed" else []

    def cancel_for_good(self) -> None:
        """Cancel what is to come; the reference of it is not asked any more."""
        self.told.append(f"{self.now:%d %b %H:%M:%S} cancel for good")
        view = self.house.scheduler.cancel(self.task_id)
        assert (view.record.run.state in TERMINAL, view.record.side_runs) == (True, ())

    # -- what holds after each step

    def compare(self, view: TaskView) -> None:
        self.match(view.record)
        assert [seen.instant for seen in view.upcoming] == self.model.upcoming(5, view.now)

    def match(self, record: TaskRecord) -> None:
        """Compare what is stored, and learn by which ids the product knows the runs; alike ones keep theirs."""
        model = self.model
        known = {run.id for run in record.side_runs} & {run.id for run in model.beside}
        assert (record.task.paused, bool(record.task.repeat)) == (model.paused, model.rule is not None)
        assert record.task.paused_until == model.paused_until
        assert (record.task.until, record.task.max_runs) == (model.until, model.max_runs)
        assert _terms_of(record.task) == model.terms
        assert record.run.number == model.run.number
        side_runs = sorted(record.side_runs, key=lambda run: (_told_of_stored(run), run.id not in known, run.id))
        beside = sorted(model.beside, key=lambda run: (_told(run), run.id not in known, run.id))
        stored, runs = [record.run, *side_runs], [model.run, *beside]
        assert [_told_of_stored(run) for run in stored] == [_told(run) for run in runs]
        for run, same in zip(stored, runs, strict=True):
            same.id = run.id
            self.seen.add(run.id)


def _terms_of(task: Task) -> Terms:
    return Terms(
        title=task.title,
        labels=tuple(task.labels),
        deliver_to=tuple(task.deliver_to),
        attempts=task.retry.max_attempts,
        expects=bool(task.expect),
        follows="run" in task.on_failure,
        raises="tier" in task.on_failure,
        payload=float(str(task.payload["seconds"])),
        priority=task.priority.value,
    )


def _told(run: Run) -> tuple[object, ...]:
    return run.at, run.state, run.started, run.stop, str(run.wake if run.waits else None)


def _told_of_stored(run: StoredRun) -> tuple[object, ...]:
    return run.scheduled_for, run.state.value, run.started_at is not None, run.cancel_requested, str(run.wake_at)


@dataclass
class Group:
    """Tasks that go through the same time, each in its own way."""

    house: House
    walks: Sequence[Walk]
    draw: random.Random

    def run(self, steps: int = STEP_COUNT) -> None:
        for walk in self.walks:
            walk.schedule()
        for _ in range(steps):
            for walk in self.walks:
                with traced(walk.told):
                    walk.operate()
            if self.draw.random() < BULK_RATIO:
                self._change_many()
            self._end(0.5)
            self._advance()
        self._finish()

    def _change_many(self) -> None:
        """Cancel, pause, resume or replay several tasks by one call; take it back at times."""
        verb = self.draw.choice([BulkVerb.CANCEL, BulkVerb.PAUSE, BulkVerb.RESUME, BulkVerb.REPLAY])
        chosen = {walk.task_id: walk for walk in self.draw.sample(self.walks, 4)}
        before = {task_id: walk.model.remember() for task_id, walk in chosen.items()}
        done = self.house.scheduler.bulk.change(verb, list(chosen))
        for outcome in done.outcomes:
            walk = chosen[outcome.record.task.id]
            with traced(walk.told):
                walk.changed_with_others(outcome, verb.value)
        if done.undo is None or self.draw.random() < BULK_RATIO:
            return
        for outcome in self.house.scheduler.bulk.change(BulkVerb.UNDO, undo=done.undo).outcomes:
            walk = chosen[outcome.record.task.id]
            with traced(walk.told):
                walk.taken_back_with_others(outcome, verb.value, before[outcome.record.task.id])

    def _advance(self) -> None:
        """Let time pass: with a worker, with none, or while nothing is up at all."""
        length = self.draw.choices([each for each, _ in STEP_LENGTHS], [weight for _, weight in STEP_LENGTHS])[0]
        mode = self.draw.choices(["up", "no worker", "down"], [7, 2, 1])[0]
        to = self.house.clock() + length
        while mode != "down" and (due := self.house.next_wake()) is not None and due <= to:
            self.house.clock.at = max(due, self.house.clock())
            self._fire(working=mode == "up")
        self.house.clock.at = to
        self._fire(working=mode != "no worker")
        self._match()
        self._match_letters()

    def _match_letters(self) -> None:
        """Whatever failed has a dead letter, until it runs again or somebody discards it."""
        open_letters = self.house.open_letters()
        for walk in self.walks:
            expected = {run.id for run in walk.model.letters}
            with traced(walk.told):
                assert expected == open_letters & {run.id for run in walk.failed}, "other dead letters are open"
            open_letters -= expected
        assert not open_letters

    def _fire(self, *, working: bool) -> None:
        self.house.dispatch()
        runs = [walk.model.run for walk in self.walks]
        for walk in self.walks:
            walk.model.end_pause(self.house.clock())
            walk.model.overtake(self.house.clock())
            walk.model.make_ready(self.house.clock())
        if any(walk.model.run is not run for walk, run in zip(self.walks, runs, strict=True)):
            self._match()
        if not working:
            return
        claims: dict[str, list[Claim]] = {}
        ended: list[tuple[Claim, str]] = []
        for claim in self.house.start():
            if FOLLOW_UP in claim.task.labels:
                ended.append((claim, "done"))
            else:
                claims.setdefault(claim.task.id, []).append(claim)
        for walk in self.walks:
            mine = claims.pop(walk.task_id, [])
            with traced(walk.told):
                ended.extend(walk.start(mine))
        assert not claims
        self._settle(ended)

    def _end(self, chance: float) -> None:
        self._settle([end for walk in self.walks for end in walk.end_held(chance)])

    def _settle(self, ended: Sequence[tuple[Claim, str]]) -> None:
        if ended:
            self.house.end(ended)
            self._match()

    def _match(self) -> None:
        """Whatever is to come is listed, as the reference has it, and nothing else is."""
        listed = self.house.listed()
        for walk in self.walks:
            record = listed.pop(walk.task_id, None)
            with traced(walk.told):
                _same(walk, record)
        assert all(FOLLOW_UP in record.task.labels for record in listed.values())

    def _finish(self) -> None:
        """Cancel whatever there is: nothing starts any more, and of every run an event says how it ended."""
        self._end(1.0)
        for walk in self.walks:
            if walk.model.run.ended is None:
                with traced(walk.told):
                    walk.cancel_for_good()
        self.house.clock.forward(days=10)  # every pause is over by then
        self.house.dispatch()
        assert {label for claim in self.house.start() for label in claim.task.labels} <= {FOLLOW_UP, *LABELS}
        assert self.house.next_wake() is None
        made = self.house.follow_ups()
        for walk in self.walks:
            with traced(walk.told):
                assert made[walk.task_id] == walk.model.follow_ups, "one task follows from each failure"
        for walk in self.walks:
            ended = {event.run_id for event in self.house.events(walk.task_id) if event.to_state in TERMINAL}
            assert walk.seen <= ended, f"lost without a word: {walk.seen - ended}"


def _same(walk: Walk, record: TaskRecord | None) -> None:
    assert (record is not None) == (walk.model.run.ended is None), "listed as open, or not"
    if record is not None:
        walk.match(record)
    else:
        assert all(run.stop for run in walk.model.beside), "something is to come and not listed"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    clock = Clock(BEGINS[0])
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    yield House(store, clock)
    store.close()


def test_each_defect_of_which_the_walk_is_known_to_find_it_can_still_be_planted() -> None:
    for mutation in MUTATIONS:
        assert planted(ROOT / "scheduler", mutation)


@pytest.mark.postgres
@pytest.mark.parametrize("number", range(POSTGRES_GROUP_COUNT), ids=lambda number: f"seed {SEED}, group {number}")
def test_series_agree_with_the_reference_on_postgresql_too(migrated_postgres_url: str, number: int) -> None:
    seed = f"{SEED}/postgres/{number}"
    clock = Clock(BEGINS[number % len(BEGINS)])
    store = open_store(migrated_postgres_url, clock=clock)
    house = House(store, clock)
    walks = [Walk(house, random.Random(f"{seed}/{task}")) for task in range(POSTGRES_TASK_COUNT)]
    Group(house, walks, random.Random(seed)).run(POSTGRES_STEP_COUNT)
    store.close()


@pytest.mark.parametrize("number", range(GROUP_COUNT), ids=lambda number: f"seed {SEED}, group {number}")
def test_series_agree_with_the_reference_whatever_is_done_to_them(house: House, number: int) -> None:
    seed = f"{SEED}/{number}"
    draw = random.Random(seed)
    years = number // len(BEGINS)
    begins = BEGINS[number % len(BEGINS)] + years * 728 * DAY
    house.clock.at = begins
    walks = [Walk(house, random.Random(f"{seed}/{task}")) for task in range(TASK_COUNT)]
    try:
        Group(house, walks, draw).run()
    except AssertionError as error:
        raise AssertionError(f"SERIES_SEED={SEED}, group {number}: {error}") from error

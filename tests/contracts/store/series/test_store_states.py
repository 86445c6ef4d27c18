"""Whatever happens in whatever order, the rows and their history tell one and the same story.

A machine makes random legal moves, crashes included, and after each step the invariants are read from the database.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from duetime.scheduler.events import Event, EventFilter, EventKind
from duetime.scheduler.records import Change
from duetime.scheduler.rules.states import LEGAL_MOVES, TERMINAL, check_move
from duetime.scheduler.run_records import Claim, Settlement, Start, Verdict
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import DeadlineType, Run, State, Task
from duetime.scheduler.views import TaskFilter, TaskRecord
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.builders import (
    LEASE,
    NOON,
    TENANT,
    Clock,
    a_run,
    a_task,
    delivery,
    message,
    runs_of,
    settlement,
    with_deadline,
)
from tests.contracts.store.conftest import emptied
from tests.search import examples

DAY = timedelta(days=1)
ENDS = sorted(LEGAL_MOVES[State.RUNNING])
MAX_TASKS = 4
DEADLINES = (None, *DeadlineType)

picks = st.integers(min_value=0, max_value=99)


class Machine(RuleBasedStateMachine):
    """Duetime's processes as one: what tools, dispatcher, workers and crashes do to the store."""

    url = ""

    @initialize()
    def open(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.clock = Clock()
        if self.url:
            emptied(self.url)
        self.store = open_store(self.url or f"sqlite:///{self.folder.name}/d.db", clock=self.clock, synchronous="OFF")
        self.epoch = self.store.runners.take_over(pid=1, endpoint="", token="")
        self.task_ids: list[str] = []
        self.claims: list[Claim] = []
        self.ended: dict[str, Run] = {}
        self.settled: Counter[str] = Counter()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()

    def record(self, pick: int) -> TaskRecord:
        return self.store.tasks.get(TENANT, self.task_ids[pick % len(self.task_ids)])

    def change(self, record: TaskRecord, kind: EventKind, change: Change) -> None:
        self.store.tasks.change(TENANT, record.task.id, actor="alice", kind=kind, decide=lambda _: change)

    # --- what tools do

    @precondition(lambda self: len(self.task_ids) < MAX_TASKS)
    @rule(hours=st.integers(min_value=0, max_value=30), recurring=st.booleans(), deadline=st.sampled_from(DEADLINES))
    def add(self, hours: int, recurring: bool, deadline: DeadlineType | None) -> None:
        task, run = a_task(self.clock.at + timedelta(hours=hours), repeat="FREQ=DAILY" if recurring else None)
        if deadline:
            task, run = with_deadline(task, run, after=timedelta(hours=6), deadline_type=deadline)
        self.store.tasks.add(task, run, actor="alice")
        self.task_ids.append(task.id)

    @precondition(lambda self: self.task_ids)
    @rule(pick=picks)
    def cancel(self, pick: int) -> None:
        record = self.record(pick)
        run = record.run
        if run.state is State.RUNNING:
            self.change(record, EventKind.CANCEL_REQUESTED, Change(record.task, replace(run, cancel_requested=True)))
        elif run.state not in TERMINAL:
            self.change(record, EventKind.CANCELLED, Change(record.task, replace(run, state=State.CANCELLED)))

    @precondition(lambda self: self.task_ids)
    @rule(pick=picks)
    def run_again(self, pick: int) -> None:
        record = self.record(pick)
        if record.run.state in TERMINAL:
            again = a_run(record.task, self.clock.at, generation=record.run.generation + 1)
            self.change(record, EventKind.RUN_NOW, Change(record.task, record.run, next_run=again))

    @precondition(lambda self: self.task_ids)
    @rule(pick=picks)
    def run_beside(self, pick: int) -> None:
        record = self.record(pick)
        extra = a_run(record.task, self.clock.at, current=False)
        self.change(record, EventKind.RUN_NOW, Change(record.task, record.run, extra_run=extra))

    @precondition(lambda self: self.task_ids)
    @rule(pick=picks)
    def skip(self, pick: int) -> None:
        record = self.record(pick)
        if State.SKIPPED in LEGAL_MOVES[record.run.state]:
            skipped = replace(record.run, state=State.SKIPPED)
            following = a_run(record.task, record.run.scheduled_for + DAY, number=record.run.number + 1)
            self.change(record, EventKind.SKIPPED, Change(record.task, skipped, next_run=following))

    @precondition(lambda self: self.task_ids)
    @rule(pick=picks)
    def pause_or_go_on(self, pick: int) -> None:
        record = self.record(pick)
        run, task = record.run, record.task
        if task.paused:
            waits = run.state in {State.SCHEDULED, State.SUSPENDED, State.RETRYING}
            run = replace(run, wake_at=self.clock.at) if waits else run
        elif run.state is State.READY:
            run = replace(run, state=State.SCHEDULED)
        self.change(record, EventKind.PAUSED, Change(replace(task, paused=not task.paused), run))

    # --- what processes do

    @rule(hours=st.integers(min_value=1, max_value=40))
    def time_passes(self, hours: int) -> None:
        self.clock.forward(hours=hours)

    @rule(limit=st.integers(min_value=1, max_value=3))
    def dispatch(self, limit: int) -> None:
        self.timer()
        due = self.store.claims.next_times().first()
        ready = self.store.claims.make_ready(limit=limit, epoch=self.epoch)
        assert bool(ready) == (due is not None and due <= self.clock.at)

    @rule()
    def timer(self) -> None:
        """Expire what can no longer be met, and relax what is late; then nothing is left to do."""

        def conclude(claim: Claim, proposed: Settlement) -> Settlement:
            self.settled[claim.run.id] += 1
            assert claim.task.deadline_type is DeadlineType.HARD
            return self.concluded(claim, proposed)

        while self.store.claims.expire(limit=1, conclude=conclude):
            pass
        assert all(run.late and run.deadline_type is DeadlineType.SOFT for run in self.store.claims.relax(limit=99))
        assert self.store.claims.relax(limit=99) == []

    @rule()
    def work(self) -> None:
        ready = [Start(run.run_id) for run in self.store.claims.ready(limit=9)]
        claims = self.store.claims.start(ready, worker="w", epoch=self.epoch, lease=LEASE)
        assert not any(it.task.paused or it.run.cancel_requested for it in claims)
        assert not any(it.run.drop_at <= self.clock.at for it in claims if it.run.drop_at and is_hard(it.task))
        self.claims += claims
        again = self.store.claims.start(ready, worker="w", epoch=self.epoch, lease=LEASE)
        assert again == []

    @precondition(lambda self: self.claims)
    @rule(pick=picks, end=st.sampled_from(ENDS), forget=st.booleans())
    def settle(self, pick: int, end: State, forget: bool) -> None:
        claim = self.claims[pick % len(self.claims)]
        if forget:
            self.claims.remove(claim)  # else it is settled a second time, by and by
        verdict = self.verdict(claim, end)
        if verdict is Verdict.STALE:
            task = self.store.tasks.get(TENANT, claim.task.id).task
            verdict = self.verdict(replace(claim, task=task), end)
        assert verdict is not Verdict.STALE
        if verdict is Verdict.SETTLED and end in TERMINAL:
            self.settled[claim.run.id] += 1

    def verdict(self, claim: Claim, end: State) -> Verdict:
        ended = end in TERMINAL
        values: dict[str, object] = {"wake_at": None if ended else self.clock.at}
        if ended:
            values |= {"inbox": message(claim), "deliveries": (delivery(claim),), "dead_letter": end is State.FAILED}
        if ended and claim.task.repeat and claim.run.current:
            following = max(claim.run.scheduled_for, self.clock.at) + DAY
            values["next_run"] = a_run(claim.task, following, number=claim.run.number + 1)
        return self.store.claims.settle([settlement(claim, end, **values)])[0]

    @rule()
    def crash(self) -> None:
        """Another process takes over; what the old one still holds in its hands settles too late."""
        self.epoch = self.store.runners.take_over(pid=2, endpoint="", token="")

        def conclude(claim: Claim, proposed: Settlement) -> Settlement:
            self.settled[claim.run.id] += 1
            return self.concluded(claim, proposed)

        running = len(self.running())
        assert self.store.claims.recover(epoch=self.epoch, conclude=conclude) == running
        assert self.running() == []

    def concluded(self, claim: Claim, proposed: Settlement) -> Settlement:
        if claim.task.repeat is None or not claim.run.current:
            return proposed
        following = a_run(claim.task, claim.run.scheduled_for + DAY, number=claim.run.number + 1)
        return replace(proposed, next_run=following)

    def running(self) -> list[Run]:
        every = (runs_of(self.store, task_id) for task_id in self.task_ids)
        return [run for found in every for run in found if run.state is State.RUNNING]

    # --- what always holds

    @invariant()
    def the_story_is_one(self) -> None:
        for task_id in getattr(self, "task_ids", ()):
            self.check(task_id)
        if hasattr(self, "store"):
            assert all(count == 1 for count in self.settled.values())
            counts = Counter(state for pick in range(len(self.task_ids)) for state in self.counted_as(pick))
            assert self.store.tasks.counts(TENANT, TaskFilter()) == counts

    def counted_as(self, pick: int) -> set[State]:
        """Return the states that a task counts as: a failure that nothing followed counts with the run to come."""
        record = self.record(pick)
        ended = record.last_run
        failed = ended is not None and ended.state in {State.FAILED, State.EXPIRED}
        return {record.run.state, *([ended.state] if failed and ended is not None else [])}

    def check(self, task_id: str) -> None:
        record = self.store.tasks.get(TENANT, task_id)
        runs = {run.id: run for run in runs_of(self.store, task_id)}
        events = list(reversed(self.store.history.events(TENANT, EventFilter(task_id=task_id), limit=9999).events))
        assert [run.id for run in runs.values() if run.current] == [record.run.id]
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
        assert replayed(events) == {run.id: run.state for run in runs.values()}
        tries = Counter(attempt.run_id for attempt in self.store.history.attempts(TENANT, task_id))
        assert tries == Counter({run.id: run.attempt for run in runs.values() if run.attempt})
        self.check_ended(runs)
        self.check_deadlines(runs, [event.run_id for event in events if event.kind is EventKind.DEADLINE_MISSED])

    def check_ended(self, runs: dict[str, Run]) -> None:
        for run in runs.values():
            assert (run.ended_at is None) == (run.state not in TERMINAL)
            if run.state in TERMINAL:
                stays = replace(run, current=False)
                assert self.ended.setdefault(run.id, stays) == stays
                assert self.settled[run.id] <= 1

    def check_deadlines(self, runs: dict[str, Run], told: list[str | None]) -> None:
        """Check that a miss is told once, of what expired by a deadline or ended too late, and of nothing else."""
        missed = [run.id for run in runs.values() if expired_by_deadline(run) or ended_late(run)]
        assert sorted(told, key=str) == sorted(missed)


def is_hard(task: Task) -> bool:
    return task.deadline_type is DeadlineType.HARD


def expired_by_deadline(run: Run) -> bool:
    return run.state is State.EXPIRED and run.deadline is not None


def ended_late(run: Run) -> bool:
    done = run.state in {State.SUCCEEDED, State.FAILED}
    return done and run.deadline is not None and run.ended_at is not None and run.ended_at > run.deadline


def replayed(events: list[Event]) -> dict[str | None, State]:
    """Return each run's state as its events alone tell it, checking every move on the way."""
    states: dict[str | None, State] = {}
    for event in events:
        if event.to_state is not None:
            assert event.from_state == states.get(event.run_id)
            check_move(event.from_state, event.to_state)
            states[event.run_id] = event.to_state
    return states


def explored(machine: type[Machine], *, count: int) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(examples(count), stateful_step_count=25),
    )


@pytest.mark.random_walk
def test_any_order_of_moves_and_crashes_leaves_one_story_on_sqlite() -> None:
    explored(Machine, count=8)


@pytest.mark.random_walk
@pytest.mark.postgres
def test_any_order_of_moves_and_crashes_leaves_one_story_on_postgres(postgres_tables: str) -> None:
    class OnPostgres(Machine):
        """The same, on a server."""

        url = postgres_tables

    explored(OnPostgres, count=4)


def test_the_machine_notices_a_lost_event(tmp_path: Path) -> None:
    """A checker that cannot fail proves nothing."""
    store: Store = open_store(f"sqlite:///{tmp_path}/d.db", clock=Clock())
    task, run = a_task(NOON)
    store.tasks.add(task, run, actor="alice")
    store.claims.make_ready(limit=1)
    events = store.history.events(TENANT, EventFilter(), limit=9).events
    assert replayed(list(reversed(events))) == {run.id: State.READY}
    with pytest.raises(AssertionError):
        replayed(list(events[:1]))
    store.close()

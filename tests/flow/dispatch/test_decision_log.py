"""The log of decisions: a few takes a minute, stored apart from the take, which anybody can replay later."""

from __future__ import annotations

from datetime import timedelta

import pytest
from duetime.scheduler.dispatch import decision_log
from duetime.scheduler.dispatch.decision_log import FLUSH_INTERVAL_S, MAX_TAKES_KEPT, MAX_TAKES_SAVED
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.foresight.decision_text import lines, outcome, reason
from duetime.scheduler.handlers import Handlers
from duetime.scheduler.handlers.reminder import reminder
from duetime.scheduler.nodes.engine import Engine
from duetime.scheduler.queue import Kind, Limits
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.rules.policies.decision import replay_decision
from duetime.scheduler.rules.policies.policy import DEFAULT_POLICY
from duetime.scheduler.store import Store
from duetime.scheduler.task import Tier
from duetime.scheduler.worker.worker import WorkerOptions

from tests.builders import TENANT, Clock, a_task, added, with_deadline
from tests.flow.dispatch.recorded import Recorded
from tests.flow.waiting import eventually


@pytest.fixture
def recorded(store: Store, clock: Clock) -> Recorded:
    return Recorded(store, clock)


def test_a_decision_says_in_words_what_was_taken_and_what_was_stepped_over(
    recorded: Recorded, store: Store, clock: Clock
) -> None:
    recorded.queue.set_pool("gpu", Limits(Kind.SLOTS, 1))
    large = added(store, priority=Tier.BACKGROUND, needs={"gpu": 2})
    recorded.dispatcher.step()
    clock.forward(hours=5)
    small = added(store, clock(), priority=Tier.HIGH)
    recorded.take(2)
    parked, taken = recorded.decisions()
    assert (parked.run_id, parked.task_id, outcome(parked)) == (large.run.id, large.task.id, "lacked gpu")
    assert next(iter(lines(parked))) == (
        f"Run {large.run.id} of tier background was stepped over: "
        "pool gpu lacked 1: 2 needed, 1 free (more than the pool ever has)."
    )
    told = [line for line in lines(parked) if line.startswith(f"high: {small.run.id} waited, 3")]
    assert [line.rpartition("; ")[2] for line in told] == ["owed 0.00 dispatches, 2.00 below its ceiling."]
    assert (taken.tier, outcome(taken)) == (Tier.HIGH, "started")
    assert reason(taken.look) == "only tier with a run that could start"
    assert f"Run {small.run.id} of tier high was taken by worker w1." in lines(taken)


def test_a_decision_says_that_a_run_went_out_of_turn_and_why_a_smaller_key_waited(
    recorded: Recorded, store: Store
) -> None:
    def urgent(tenant: str, seconds: int) -> str:
        task = with_deadline(*a_task(tenant=tenant), after=timedelta(seconds=seconds))
        return store.tasks.add(*task, actor="alice").record.run.id

    first, second, third = (urgent("acme", 60 + number) for number in range(3))
    patient, light = added(store, tenant="globex").run.id, urgent("initech", 90)
    recorded.take(4)
    why = {each.run_id: [*lines(each)] for each in recorded.decisions()}
    assert list(why) == [first, second, light, patient]
    out_of_turn = "It went out of turn, to keep its deadline."
    assert [out_of_turn in each for each in why.values()] == [False, True, True, False]
    (smallest,) = (line for line in why[light] if third in line)
    assert smallest.startswith(f"In the tier {third} had the smallest key, 1 min")
    assert smallest.endswith("Its tenant had started a run out of turn before, so this one waits for its turn.")
    (in_turn,) = (line for line in why[patient] if third in line)
    assert in_turn.startswith(f"In the tier it was the turn of its tenant; {third} had the smallest key, 1 min")


def test_a_stored_decision_is_replayed_and_has_what_its_keys_were_computed_from(
    recorded: Recorded, store: Store, clock: Clock
) -> None:
    for tier in Tier:
        added(store, priority=tier)
    store.tasks.add(*with_deadline(*a_task(), after=timedelta(minutes=30), priority=Tier.LOW), actor="alice")
    clock.forward(minutes=6)
    recorded.take(6)
    found = recorded.decisions()
    assert len(found) == 6
    for each in found:
        assert replay_decision(each.look, DEFAULT_POLICY.shares) == (each.look.tier, each.look.run)
        assert DEFAULT_POLICY.key(each.facts[each.run_id], each.tier) == each.look.run.key


def test_so_many_takes_are_recorded_and_some_at_once_after_a_pause(recorded: Recorded, store: Store) -> None:
    for _ in range(3 * MAX_TAKES_SAVED):
        added(store)
    for _ in range(2 * MAX_TAKES_SAVED):
        recorded.take(1)
    assert len(recorded.decisions()) == MAX_TAKES_SAVED
    recorded.seconds.now += 2
    for _ in range(5):
        recorded.take(1)
    assert len(recorded.decisions()) == MAX_TAKES_SAVED + 2


def test_a_take_that_finds_nothing_does_not_count(recorded: Recorded, store: Store) -> None:
    for _ in range(2 * MAX_TAKES_SAVED):
        recorded.take(1)
    added(store)
    recorded.take(1)
    assert len(recorded.decisions()) == 1


def test_without_a_rate_nothing_is_recorded(store: Store, clock: Clock) -> None:
    added(store)
    recorded = Recorded(store, clock, per_minute=0)
    recorded.take(1)
    assert recorded.decisions() == []


def test_while_the_database_is_away_records_are_dropped_and_never_pile_up(
    recorded: Recorded, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(MAX_TAKES_KEPT + 5):
        added(store)
    for _ in range(MAX_TAKES_KEPT + 5):
        recorded.seconds.now += 60
        recorded.take(1)
    assert not recorded.log.wanted()

    def away(_: object) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patched:
        patched.setattr(store.decisions, "add", away)
        assert recorded.log.step() == FLUSH_INTERVAL_S
    assert recorded.decisions() == []
    assert recorded.log.wanted()


def test_more_than_are_kept_are_deleted(recorded: Recorded, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decision_log, "MAX_DECISIONS_KEPT", 3)
    for _ in range(5):
        added(store)
    recorded.take(5)
    assert len(recorded.decisions()) == 3


@pytest.mark.parametrize("per_minute", [0, 60])
def test_an_engine_records_what_its_worker_takes_if_it_is_told_to(store: Store, per_minute: int) -> None:
    queue = MemoryQueue(lambda: store.now().timestamp() * 1000)
    record = added(store)
    options = WorkerOptions("w1", threads=1, decisions=per_minute)
    engine = Engine(store, queue, Handlers([reminder]), options, epoch=0)
    engine.start()
    eventually(lambda: store.tasks.get(TENANT, record.task.id).run.ended_at is not None, "the end of the run")
    engine.end(timedelta(0))
    assert [each.run_id for each in store.decisions.page(None, limit=9).decisions] == [record.run.id] * bool(per_minute)

"""Outcomes are stored in groups, and never lost: not by a change, an outage, a poisoned one or a late attempt."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from duetime.scheduler.errors import StoreUnavailable
from duetime.scheduler.events import EventKind
from duetime.scheduler.outcomes import Done, Retry, Wait, Yielded
from duetime.scheduler.rules import settlement
from duetime.scheduler.rules.changes import cancel
from duetime.scheduler.rules.settlement import AttemptResult
from duetime.scheduler.run_records import Claim, Settlement, Verdict
from duetime.scheduler.runtime.notifier import RunNotifier
from duetime.scheduler.store import Store
from duetime.scheduler.task import State
from duetime.scheduler.worker.active_runs import ActiveRun
from duetime.scheduler.worker.completer import (
    GROUP_FLUSH_DELAY_S,
    MAX_GATHER_ROUNDS,
    MAX_RUSH_ROUNDS,
    RESERVED_FLUSH_DELAY_S,
    BatchCompleter,
    CompletedRun,
)
from duetime.server.telemetry.notice_log import log_notice

from tests.builders import TENANT, started
from tests.flow.waiting import eventually


@dataclass
class SentMessage:
    """Collects what was reported as ended."""

    ended: list[CompletedRun] = field(default_factory=list)

    def __call__(self, ended: Sequence[CompletedRun]) -> None:
        self.ended += ended

    def await_(self, count: int) -> None:
        eventually(lambda: len(self.ended) >= count, f"{count} endings")


@pytest.fixture
def told() -> SentMessage:
    return SentMessage()


@pytest.fixture
def completer(store: Store, told: SentMessage) -> Iterator[BatchCompleter]:
    made = BatchCompleter(store, on_settled=told, jitter=lambda: 0.5, notifier=RunNotifier(observers=(log_notice,)))
    made.start()
    yield made
    made.close(60)


def state(store: Store, claim: Claim) -> State:
    return store.tasks.get(TENANT, claim.task.id).run.state


def replace_settle(store: Store, monkeypatch: pytest.MonkeyPatch, settle: Callable[..., list[Verdict]]) -> None:
    monkeypatch.setattr(store.claims, "settle", settle)


@pytest.mark.parametrize(("needs", "delay"), [({}, GROUP_FLUSH_DELAY_S), ({"gpu": 1}, RESERVED_FLUSH_DELAY_S)])
def test_a_run_that_holds_units_of_a_pool_waits_less_for_others(
    store: Store, told: SentMessage, needs: dict[str, int], delay: float
) -> None:
    completer = BatchCompleter(store, on_settled=told)
    completer.start()
    waits: list[float | None] = []
    wait = completer._changed.wait
    completer._busy = True

    def waited(timeout: float | None = None) -> bool:
        waits.append(timeout)
        return wait(0)

    completer._changed.wait = waited  # type: ignore[method-assign]  # to see it
    claim = replace(started(store), reserved=needs)
    completer.hand_in(ActiveRun(claim), Done())
    told.await_(1)
    assert completer.close(60)
    assert delay in waits


def test_endings_that_wait_together_are_stored_together(
    store: Store, completer: BatchCompleter, told: SentMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = [started(store) for _ in range(6)]
    groups: list[int] = []
    first_waits, go, real = threading.Event(), threading.Event(), store.claims.settle

    def settle(settlements: Sequence[Settlement], **_how: object) -> list[Verdict]:
        groups.append(len(settlements))
        first_waits.set()
        go.wait(60)
        return real(settlements)

    replace_settle(store, monkeypatch, settle)
    completer.hand_in(ActiveRun(claims[0]), Done("0"))
    first_waits.wait(60)
    for claim in claims[1:]:
        completer.hand_in(ActiveRun(claim), Done("later"))
    go.set()
    told.await_(6)
    assert groups == [1, 5]
    assert [state(store, claim) for claim in claims] == [State.SUCCEEDED] * 6


def test_endings_that_never_cease_are_waited_for_a_few_times_and_no_longer(
    store: Store, completer: BatchCompleter, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    ending = completer._pending(ActiveRun(started(store)), Done())

    def another(timeout: float) -> None:
        waited.append(timeout)
        completer._waiting.append(ending)

    with completer._changed:
        completer._waiting.append(ending)
        with monkeypatch.context() as steady:
            steady.setattr(completer._changed, "wait", another)
            completer._gather()
        completer._waiting.clear()
    assert waited == [GROUP_FLUSH_DELAY_S] * MAX_GATHER_ROUNDS


@pytest.mark.parametrize(
    ("last", "rounds"), [(5, 5), (1000, MAX_RUSH_ROUNDS)], ids=["until they have started", "at most"]
)
def test_while_brief_runs_wait_to_be_started_endings_are_stored_later(
    store: Store, told: SentMessage, monkeypatch: pytest.MonkeyPatch, last: int, rounds: int
) -> None:
    waited: list[float] = []
    completer = BatchCompleter(store, on_settled=told, starting=lambda: len(waited) < last)
    completer.start()
    with completer._changed:
        completer._waiting.append(completer._pending(ActiveRun(started(store)), Done()))
        with monkeypatch.context() as steady:
            steady.setattr(completer._changed, "wait", waited.append)
            completer._gather()
        completer._waiting.clear()
    assert waited == [GROUP_FLUSH_DELAY_S] * rounds
    assert completer.close(60)


def test_a_result_that_a_failed_call_stored_is_reported_as_stored(
    store: Store, completer: BatchCompleter, told: SentMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, real, lost = started(store), store.claims.settle, [StoreUnavailable("the connection broke")]

    def settle(settlements: Sequence[Settlement], **how: Any) -> list[Verdict]:
        verdicts = real(settlements, **how)
        if lost:
            raise lost.pop()
        return verdicts

    replace_settle(store, monkeypatch, settle)
    completer.hand_in(ActiveRun(claim), Done("x"))
    told.await_(1)
    assert [each.stored for each in told.ended] == [True]


def test_results_that_were_stored_before_another_of_their_group_was_refused_are_reported_as_stored(
    store: Store, told: SentMessage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """PostgreSQL stores what it can in one statement, and the rest of the group after that."""
    good, bad, real = started(store), started(store), store.claims.settle

    def settle(settlements: Sequence[Settlement], **how: Any) -> list[Verdict]:
        plain = [each for each in settlements if each.checkpoint is None]
        return real(plain, **how) + real([each for each in settlements if each.checkpoint is not None], **how)

    replace_settle(store, monkeypatch, settle)
    poison: Any = {"not": {1, 2}}
    completer = BatchCompleter(store, on_settled=told, notifier=RunNotifier(observers=(log_notice,)))
    completer.hand_in(ActiveRun(good), Done("good"))
    completer.hand_in(ActiveRun(bad), Yielded(poison))
    completer.start()
    told.await_(2)
    assert completer.close(60)
    assert {each.held.run_id: each.stored for each in told.ended} == {good.run.id: True, bad.run.id: True}
    assert (state(store, good), state(store, bad)) == (State.SUCCEEDED, State.FAILED)
    assert "no longer own" not in caplog.text


def test_an_outage_delays_outcomes_and_loses_none(
    store: Store, completer: BatchCompleter, told: SentMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, real, failures = started(store), store.claims.settle, [1, 2]

    def settle(settlements: Sequence[Settlement], **_how: object) -> list[Verdict]:
        if failures:
            failures.pop()
            raise StoreUnavailable("the disk is full")
        return real(settlements)

    replace_settle(store, monkeypatch, settle)
    completer.hand_in(ActiveRun(claim), Done("done"))
    told.await_(1)
    assert not failures
    assert state(store, claim) is State.SUCCEEDED


def test_too_many_waiting_outcomes_hold_up_those_who_bring_more(
    store: Store, told: SentMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims, real = [started(store) for _ in range(4)], store.claims.settle
    storing, go = threading.Event(), threading.Event()

    def settle(settlements: Sequence[Settlement], **_how: object) -> list[Verdict]:
        storing.set()
        go.wait(60)
        return real(settlements)

    replace_settle(store, monkeypatch, settle)
    completer = BatchCompleter(store, on_settled=told, limit=2)
    completer.start()
    completer.hand_in(ActiveRun(claims[0]), Done("x"))
    storing.wait(60)
    bringing = threading.Thread(
        target=lambda: list(map(completer.hand_in, map(ActiveRun, claims[1:]), [Done("x")] * 3)), daemon=True
    )
    bringing.start()
    eventually(lambda: len(completer._waiting) == 2, "two waiting outcomes")
    assert bringing.is_alive()
    go.set()
    bringing.join(60)
    told.await_(4)
    assert completer.close(60)


def test_a_task_that_was_changed_while_it_ran_is_settled_as_it_is_now(
    store: Store, completer: BatchCompleter, told: SentMessage
) -> None:
    claim = started(store, repeat="FREQ=HOURLY")
    store.tasks.change(
        TENANT,
        claim.task.id,
        actor="alice",
        kind=EventKind.CANCEL_REQUESTED,
        decide=lambda record: cancel(record, store.now()),
    )
    completer.hand_in(ActiveRun(claim), Done("just made it"))
    told.await_(1)
    record = store.tasks.get(TENANT, claim.task.id)
    assert record.run.id == claim.run.id
    assert record.run.state is State.SUCCEEDED


def test_a_run_that_was_cancelled_during_its_attempt_is_not_tried_again(
    store: Store, completer: BatchCompleter, told: SentMessage
) -> None:
    claim = started(store)
    store.tasks.change(
        TENANT,
        claim.task.id,
        actor="alice",
        kind=EventKind.CANCEL_REQUESTED,
        decide=lambda record: cancel(record, store.now()),
    )
    completer.hand_in(ActiveRun(claim), Retry("no answer"))
    told.await_(1)
    assert state(store, claim) is State.CANCELLED


def test_an_attempt_that_lost_its_run_changes_nothing_and_is_named(
    store: Store, completer: BatchCompleter, told: SentMessage, caplog: pytest.LogCaptureFixture
) -> None:
    claim = started(store)
    late = replace(claim, run=replace(claim.run, attempt=claim.run.attempt - 1))
    completer.hand_in(ActiveRun(late), Done("too late"))
    told.await_(1)
    assert state(store, claim) is State.RUNNING
    assert f"that no longer own their run: 1 run ({claim.run.id})" in caplog.text


def test_an_outcome_that_no_database_takes_fails_alone(
    store: Store, completer: BatchCompleter, told: SentMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = started(store), started(store)
    real, held_up, go = store.claims.settle, threading.Event(), threading.Event()
    groups: list[int] = []

    def settle(settlements: Sequence[Settlement], **_how: object) -> list[Verdict]:
        held_up.set()
        go.wait(60)
        groups.append(len(settlements))
        return real(settlements)

    replace_settle(store, monkeypatch, settle)
    poison: Any = {"not": {1, 2}}
    completer.hand_in(ActiveRun(started(store)), Done("first"))
    held_up.wait(60)
    completer.hand_in(ActiveRun(bad), Done("bad", poison))
    completer.hand_in(ActiveRun(good), Done("good"))
    go.set()
    told.await_(3)
    assert 2 in groups
    assert state(store, good) is State.SUCCEEDED
    failed = store.tasks.get(TENANT, bad.task.id).run
    assert failed.state is State.FAILED
    assert (failed.error or "").startswith("could not store its result")


@pytest.mark.parametrize("ending", [Wait(timedelta.max), Retry("x", timedelta(days=10_000_000))])
def test_an_outcome_that_no_settlement_follows_from_fails_alone(
    store: Store, completer: BatchCompleter, told: SentMessage, ending: AttemptResult
) -> None:
    good, bad = started(store), started(store)
    completer.hand_in(ActiveRun(bad), ending)
    completer.hand_in(ActiveRun(good), Done("good"))
    told.await_(2)
    assert state(store, good) is State.SUCCEEDED
    failed = store.tasks.get(TENANT, bad.task.id).run
    assert (failed.state, failed.error) == (State.FAILED, "could not settle its result: OverflowError")
    assert [message.state for message in store.inbox.unread(TENANT, "alice")].count(State.FAILED) == 1


def test_the_result_of_a_task_whose_zone_cannot_be_read_becomes_a_failure_that_the_user_is_told_of(
    store: Store, completer: BatchCompleter, told: SentMessage
) -> None:
    bad = started(store)
    lost = replace(bad.task, timezone="Mars/Olympus", repeat="FREQ=DAILY")
    completer.hand_in(ActiveRun(replace(bad, task=lost)), Done("x"))
    told.await_(1)
    assert state(store, bad) is State.FAILED
    assert [message.run_id for message in store.inbox.unread(TENANT, "alice")] == [bad.run.id]


def test_a_failure_that_nothing_can_be_worked_out_for_still_ends_its_run(
    store: Store, completer: BatchCompleter, told: SentMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> Settlement:
        raise ArithmeticError("the next occurrence")

    bad = started(store)
    monkeypatch.setattr("duetime.scheduler.worker.completer.settle", broken)
    completer.hand_in(ActiveRun(bad), Done("x"))
    told.await_(1)
    failed = store.tasks.get(TENANT, bad.task.id).run
    assert (failed.state, failed.error) == (State.FAILED, "could not settle its result: ArithmeticError")


def test_a_result_is_settled_on_the_thread_that_hands_it_in(
    store: Store, completer: BatchCompleter, told: SentMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that stores is the busiest of a worker; those that run have time."""
    threads: list[threading.Thread] = []

    def noted(*args: Any, **options: Any) -> Settlement:
        threads.append(threading.current_thread())
        return settlement.settle(*args, **options)

    monkeypatch.setattr("duetime.scheduler.worker.completer.settle", noted)
    completer.hand_in(ActiveRun(started(store)), Done("x"))
    told.await_(1)
    assert threads == [threading.current_thread()]


def test_outcomes_that_are_lost_leave_the_hand_and_later_ones_are_stored(
    store: Store, completer: BatchCompleter, told: SentMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost, good, real = started(store), started(store), store.claims.settle
    monkeypatch.setattr(store.claims, "settle", lambda _, **_how: [])  # no verdict for what was asked
    completer.hand_in(ActiveRun(lost), Done("x"))
    told.await_(1)
    monkeypatch.setattr(store.claims, "settle", real)
    completer.hand_in(ActiveRun(good), Done("good"))
    told.await_(2)
    assert [ended.held.run_id for ended in told.ended] == [lost.run.id, good.run.id]
    assert (state(store, lost), state(store, good)) == (State.RUNNING, State.SUCCEEDED)


def test_closing_stores_what_waits_and_says_when_it_could_not(
    store: Store, told: SentMessage, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = [started(store) for _ in range(2)]
    completer = BatchCompleter(store, on_settled=told)
    completer.start()
    completer.hand_in(ActiveRun(claims[0]), Done("x"))
    assert completer.close(60)
    assert state(store, claims[0]) is State.SUCCEEDED

    def settle(_: Sequence[Settlement], **_how: object) -> list[Verdict]:
        raise StoreUnavailable("the disk is full")

    replace_settle(store, monkeypatch, settle)
    completer = BatchCompleter(store, on_settled=told)
    completer.start()
    completer.hand_in(ActiveRun(claims[1]), Done("x"))
    assert not completer.close(0.01)

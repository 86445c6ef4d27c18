"""Claims of a worker: each is begun once and settled once, and a later claim is another one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from duetime.scheduler.handlers import Context, Handler, Handlers, handler, reminder
from duetime.scheduler.outcomes import Done
from duetime.scheduler.queue import Entry, Finish
from duetime.scheduler.queue.memory.queue import MemoryQueue
from duetime.scheduler.run_records import Claim, Start
from duetime.scheduler.store import Store, open_store
from duetime.scheduler.task import State
from duetime.scheduler.views import TaskRecord
from duetime.scheduler.worker import broker
from duetime.scheduler.worker.active_runs import ActiveRuns
from duetime.scheduler.worker.worker import Worker, WorkerOptions

from tests import blank
from tests.builders import NOON, TENANT, Clock, a_task, added
from tests.flow.waiting import eventually


def a_claim(run_id: str = "r") -> Claim:
    task, run = a_task()
    return Claim(replace(run, id=run_id), task, "w")


def test_a_claim_is_begun_and_handed_over_once() -> None:
    hand = ActiveRuns()
    hand.add([a_claim()])
    held = hand.get("r")
    assert held is not None
    assert (held.begin(), held.begin()) == (True, False)
    assert (held.hand_over(), held.hand_over()) == (True, False)


def test_letting_go_of_a_claim_keeps_a_later_one_of_the_same_run() -> None:
    hand = ActiveRuns()
    hand.add([a_claim()])
    first = hand.get("r")
    assert first is not None
    hand.add([a_claim()])
    hand.remove([first])
    assert hand.get("r") not in {None, first}
    assert len(hand) == 1


def test_waiting_for_an_empty_hand_ends_with_the_last_claim_or_with_patience() -> None:
    hand = ActiveRuns()
    hand.add([a_claim("a"), a_claim("b")])
    assert not hand.wait_until_empty(timeout=0)
    hand.remove(hand.all())
    assert hand.wait_until_empty(timeout=0)


def test_a_closed_hand_takes_nothing_more() -> None:
    hand = ActiveRuns()
    assert hand.add([a_claim("a")])
    assert [held.run_id for held in hand.close()] == ["a"]
    assert not hand.add([a_claim("b")])
    assert [held.run_id for held in hand.all()] == ["a"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    blank.make(tmp_path / "duetime.db")
    opened = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=Clock(), synchronous="OFF")
    yield opened
    opened.close()


def with_a_ready_run(store: Store, *handlers: Handler) -> tuple[Worker, TaskRecord]:
    queue = MemoryQueue(lambda: NOON.timestamp() * 1000)
    record = added(store)
    store.claims.make_ready(limit=1)
    queue.put([Entry(record.run.id, NOON.timestamp() * 1000)])
    return Worker(store, queue, Handlers([*handlers]), WorkerOptions("w", threads=1)), record


def test_a_run_that_starts_in_the_database_after_the_end_of_the_worker_is_given_back(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    @handler("reminder")
    def remind(ctx: Context) -> Done:
        """Report that it began."""
        begun.append(ctx.run_id)
        return Done()

    worker, record = with_a_ready_run(store, remind)
    starting, go, real = threading.Event(), threading.Event(), store.claims.start

    def start_late(starts: Sequence[Start], **options: Any) -> list[Claim]:
        starting.set()
        go.wait(60)
        return real(starts, **options)

    monkeypatch.setattr(store.claims, "start", start_late)
    monkeypatch.setattr(broker, "CLAIM_TIMEOUT_S", 0)
    worker.start()
    assert starting.wait(60)
    assert worker.stop(timedelta(0))
    go.set()
    eventually(lambda: store.tasks.get(TENANT, record.task.id).run.state is State.SUSPENDED, "the run to be given back")
    [attempt] = store.history.attempts(TENANT, record.task.id)
    assert (attempt.outcome, attempt.reason, begun) == ("yielded", "the worker stopped", [])


def test_a_look_at_held_runs_never_misses_a_stored_claim(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    go = threading.Event()

    @handler("reminder")
    def remind(_ctx: Context) -> Done:
        """Stay in hand."""
        go.wait(60)
        return Done()

    worker, record = with_a_ready_run(store, remind)
    real, answers = store.claims.start, list[set[str]]()

    def ask_before_the_hand_has_it(starts: Sequence[Start], **options: Any) -> list[Claim]:
        claims = real(starts, **options)
        asking = threading.Thread(target=lambda: answers.append(worker.held()))
        asking.start()
        asking.join(0.1)
        return claims

    monkeypatch.setattr(store.claims, "start", ask_before_the_hand_has_it)
    worker.start()
    eventually(lambda: answers, "an answer")
    go.set()
    worker.stop(timedelta(seconds=30))
    assert answers == [{record.run.id}]


def test_a_claim_has_left_the_hand_before_the_queue_may_hand_out_its_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    store = open_store(f"sqlite:///{tmp_path}/duetime.db", clock=clock, synchronous="OFF")
    queue = MemoryQueue(lambda: clock().timestamp() * 1000)
    worker = Worker(store, queue, Handlers([reminder]), WorkerOptions("w", threads=1))
    active_runs: list[int] = []
    real = queue.finish

    def finish(name: str, ended: Sequence[Finish], *, jitter: float = 0.0) -> set[str]:
        active_runs.append(worker.running)
        return real(name, ended, jitter=jitter)

    monkeypatch.setattr(queue, "finish", finish)
    record = added(store)
    store.claims.make_ready(limit=1)
    queue.put([Entry(record.run.id, NOON.timestamp() * 1000)])
    worker.start()
    eventually(lambda: active_runs, "the run to be finished in the queue")
    worker.stop(timedelta(seconds=30))
    store.close()
    assert active_runs == [0]
